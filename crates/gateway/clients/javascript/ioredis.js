// The client ioredis at work: transfers, sales under WATCH, and a tour of types. ../README.md has the contract.
'use strict';

const Redis = require('ioredis');
const { version } = require('ioredis/package.json');
const { PATIENCE_MS, Wrong, amount, checkTransfer, main, tour, untilAnswered, untilRead } = require('./run.js');
const { defaults } = require('./defaults.js');
const checks = require('./ioredis-types.js');

const isAnswer = (error) => error instanceof Redis.ReplyError;

function connect(host, port, more) {
  const client = new Redis({
    host,
    port,
    // By default the client sends again what was not answered when the connection was lost. A transfer must not happen twice. With
    // the first of these alone what is not sent again is never answered; with the second it is an error at once.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => 20,
    connectTimeout: PATIENCE_MS,
    ...more,
  });
  client.on('error', () => {});
  return client;
}

// The answers of a transaction; null where what it watched was changed. The first error of a command is thrown.
async function answers(multi) {
  const results = await multi.exec();
  return results?.map(([error, answer]) => {
    if (error) throw error;
    return answer;
  }) ?? null;
}

async function transferAll(host, port, run, count, worker) {
  const client = connect(host, port);
  const awaitServer = () => untilAnswered(() => client.ping());
  const read = () => answers(client.multi().get('account:ada').get('account:bob'));
  const balances = await untilRead(read, isAnswer, awaitServer);
  const total = Number(balances[0]) + Number(balances[1]);
  for (let number = 0; number < Number(count); number += 1) {
    const id = `${worker}-${number}`;
    const moved = amount();
    const attempt = async (state) => {
      state.sent = true;
      const [ada, bob, isNew] = await answers(
        client
          .multi()
          .decrby('account:ada', moved)
          .incrby('account:bob', moved)
          .hset('ledger', id, moved)
          .rpush('transfers', id),
      );
      checkTransfer(id, total, ada, bob, isNew);
      return 'done';
    };
    await run.untilDone(id, attempt, isAnswer, awaitServer);
  }
}

async function sellAll(host, port, run, count, worker) {
  // WATCH wants a connection that nobody else uses meanwhile, and one that is lost forgets what it watched: then the EXEC of
  // the next connection must not go out, hence no queue of commands while there is none.
  const client = connect(host, port, { enableOfflineQueue: false });
  await untilAnswered(() => client.ping());
  for (let number = 0; number < Number(count); number += 1) {
    const id = `${worker}-${number}`;
    await run.untilDone(id, (state) => sell(client, id, state), isAnswer, () => untilAnswered(() => client.ping()));
  }
}

async function sell(client, id, state) {
  let connections = 0;
  const lost = () => (connections += 1);
  client.on('close', lost);
  try {
    await client.watch('stock:1');
    const stock = Number(await client.get('stock:1'));
    if (stock < 1) throw new Wrong('sold out');
    if (connections > 0) return 'changed';
    state.sent = true;
    const sale = client.multi().set('stock:1', stock - 1).incr('sold:1').rpush('sales', id);
    return (await answers(sale)) === null ? 'changed' : 'done';
  } finally {
    client.off('close', lost);
  }
}

async function types(host, port, run, prefix) {
  for (const protocol of [2, 3]) {
    const client = connect(host, port, { protocol });
    await tour(run, checks.of(client, `${prefix}:${protocol}`), `in RESP${protocol}`);
    client.disconnect();
  }
  await tour(run, [authentication], '');
  async function authentication() {
    const stranger = connect(host, port, { lazyConnect: true });
    await stranger.connect();
    try {
      await stranger.auth('nobody', 'wrong');
    } catch (error) {
      if (error instanceof Redis.ReplyError && error.message.startsWith('WRONGPASS')) return;
      throw error;
    } finally {
      stranger.disconnect();
    }
    throw new Error('a wrong password is none');
  }
}

// With a client as its documentation begins with.
async function byDefault(host, port, run, kind, prefix) {
  const client = new Redis({ host, port });
  client.on('error', () => {});
  await client.ping();
  const names = ['connectTimeout', 'commandTimeout', 'socketTimeout', 'maxRetriesPerRequest', 'retryStrategy'];
  names.push('autoResendUnfulfilledCommands', 'enableOfflineQueue', 'enableReadyCheck', 'protocol');
  const settings = Object.fromEntries(names.map((name) => [name, client.options[name]]));
  const kinds = {
    multi: (x, y) => answers(client.multi().incr(x).incr(y)),
    pipeline: (x, y) => answers(client.pipeline().incr(x).incr(y)),
    watch: async (x, y) => {
      for (;;) {
        await client.watch(x);
        const value = Number(await client.get(x));
        const done = await answers(client.multi().set(x, value + 1).incr(y));
        if (done !== null) return done;
      }
    },
  };
  await defaults(`ioredis ${version}`, settings, kinds, kind, prefix);
}

main(`ioredis ${version}`, { transfer: transferAll, watch: sellAll, types, defaults: byDefault });
