// Builds a report, while no other service does.  It locks with node-redlock, and writes with
// node-postgres.  A session that calls redis_token_lock('node-report') in SQL takes the same
// lock.
//
// The variables of libpq and REDIS_URL say where the servers are, LEASE how many seconds the
// lock lasts.

const { Client } = require('pg');
const Redis = require('ioredis');
const { default: Redlock } = require('redlock');

const name = 'node-report';
const lease = 1000 * (process.env.LEASE || 60);

async function main() {
  const redis = new Redis(process.env.REDIS_URL || 'redis://localhost:6379');
  // One client, not a pool, whose query() takes a different connection each time
  const client = new Client();
  // extend() and release() of a lost lock fail at once: with -1 they would try for ever
  const redlock = new Redlock([redis], { retryCount: 0, retryDelay: 100 });
  redlock.on('error', () => {});
  await client.connect();

  let lock = await redlock.acquire([name], lease).catch(() => null);
  if (lock === null) {
    console.log('busy');
    lock = await redlock.acquire([name], lease, { retryCount: -1 });
  }
  try {
    await client.query('BEGIN');
    await client.query("INSERT INTO service_report (made_by) VALUES ('node')");
    // Not renewed: an error if it is not ours any more
    lock = await lock.extend(lease);
    await client.query('COMMIT');
    console.log('built');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    // If it was lost, or Redis does not answer, its lease ends it
    await lock.release().catch(() => {});
  }
  await client.end();
  redis.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
