// A service that builds a report, one of all services at a time: the lock is node-redlock's,
// the database node-postgres's.  Whoever says redis_token_lock('report') in SQL is one of
// them.
//
//   node service.js DSN REDIS_URL [NAME OF THE LOCK]

const { Client } = require('pg');
const Redis = require('ioredis');
const { default: Redlock } = require('redlock');

const [dsn, redisUrl, name = 'report'] = process.argv.slice(2);

async function main() {
  const redis = new Redis(redisUrl);
  // One client, not a pool, whose query() takes a different connection each time
  const client = new Client({ connectionString: dsn });
  const once = new Redlock([redis], { retryCount: 0 });
  const patient = new Redlock([redis], { retryCount: -1, retryDelay: 100 });
  once.on('error', () => {});
  patient.on('error', () => {});
  await client.connect();

  let lock = await once.acquire([name], 60000).catch(() => null);
  if (lock === null) {
    console.log('busy');
    lock = await patient.acquire([name], 60000);
  }
  try {
    await client.query('BEGIN');
    await client.query('CALL build_report($1)', ['node']);
    // Not renewed: an error if it is not ours any more
    lock = await lock.extend(60000);
    await client.query('COMMIT');
    console.log('built');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    await lock.release();
  }
  await client.end();
  redis.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
