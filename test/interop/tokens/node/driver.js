// Copyright (c) 2026, lockredis contributors

// node-redlock as a service would use it, told line by line what to do; see
// test/perl/LockRedis/TokenClient.pm.

const Redis = require('ioredis');
const { default: Redlock, Lock, ResourceLockedError, ExecutionError } = require('redlock');

const client = new Redis(Number(process.argv[2]), '127.0.0.1');
const redlock = new Redlock([client], { retryCount: 0 });
redlock.on('error', () => {});

// One of somebody else, as far as its token says
function known(key, token) {
  return new Lock(redlock, [key], token, [], Date.now() + 3600000);
}

// Its errors have the votes of each node.
async function refused(error) {
  if (error instanceof ResourceLockedError) return true;
  if (!(error instanceof ExecutionError)) return false;
  const votes = (await Promise.all(error.attempts)).flatMap((a) => [...a.votesAgainst.values()]);
  return votes.length > 0 && votes.every((v) => v instanceof ResourceLockedError);
}

const verbs = {
  async take(key, token, lease, wait) {
    // It has no way to say which token.
    const lock = await redlock.acquire([key], Number(lease), {
      retryCount: Math.ceil(Number(wait) / 50), retryDelay: 50, retryJitter: 0,
    });
    return lock.value;
  },
  async extend(key, token, lease) {
    await known(key, token).extend(Number(lease));
    return 'yes';
  },
  async release(key, token) {
    await known(key, token).release();
    return 'yes';
  },
};

async function answer(line) {
  const [verb, ...args] = line.split(' ');
  try {
    return `ok ${await verbs[verb](...args)}`;
  } catch (error) {
    return (await refused(error)) ? 'no' : `error ${String(error).replace(/\n/g, ' ')}`;
  }
}

let last = Promise.resolve();
require('readline')
  .createInterface({ input: process.stdin })
  .on('line', (line) => {
    last = last.then(async () => process.stdout.write(`${await answer(line)}\n`));
  })
  .on('close', () => process.exit(0));
