// The client node-redis at work: transfers, sales under WATCH, and a tour of types. ../README.md has the contract.
'use strict';

const { readFileSync } = require('node:fs');
const { ErrorReply, WatchError, createClient, createClientPool } = require('redis');
const { version } = require('redis/package.json');
const { PATIENCE_MS, Wrong, amount, checkTransfer, main, tour, untilAnswered, untilRead } = require('./run.js');
const { defaults } = require('./defaults.js');
const checks = require('./node-redis-types.js');

const isAnswer = (error) => error instanceof ErrorReply;

const options = (host, port, more) => ({ ...more, socket: { host, port, reconnectStrategy: 20, connectTimeout: PATIENCE_MS } });

async function transferAll(host, port, run, count, worker) {
  const client = createClient(options(host, port));
  // Without a listener an error of the connection ends the program.
  client.on('error', () => {});
  await client.connect();
  const awaitServer = () => untilAnswered(() => client.ping());
  const read = () => client.multi().get('account:ada').get('account:bob').exec();
  const balances = await untilRead(read, isAnswer, awaitServer);
  const total = Number(balances[0]) + Number(balances[1]);
  for (let number = 0; number < Number(count); number += 1) {
    const id = `${worker}-${number}`;
    const moved = amount();
    const attempt = async (state) => {
      state.sent = true;
      const [ada, bob, isNew] = await client
        .multi()
        .decrBy('account:ada', moved)
        .incrBy('account:bob', moved)
        .hSet('ledger', id, moved)
        .rPush('transfers', id)
        .exec();
      checkTransfer(id, total, ada, bob, isNew);
      return 'done';
    };
    await run.untilDone(id, attempt, isAnswer, awaitServer);
  }
}

async function sellAll(host, port, run, count, worker) {
  // WATCH wants a connection that nobody else uses meanwhile: one of a pool.
  const pool = createClientPool(options(host, port), { minimum: 1, maximum: 2 });
  pool.on('error', () => {});
  await pool.connect();
  for (let number = 0; number < Number(count); number += 1) {
    const id = `${worker}-${number}`;
    const attempt = (state) => pool.execute((client) => sell(client, id, state));
    await run.untilDone(id, attempt, isAnswer, () => untilAnswered(() => pool.ping()));
  }
}

async function sell(client, id, state) {
  await client.watch('stock:1');
  const stock = Number(await client.get('stock:1'));
  if (stock < 1) throw new Wrong('sold out');
  try {
    const sale = client.multi().set('stock:1', stock - 1).incr('sold:1').rPush('sales', id);
    state.sent = true;
    await sale.exec();
    return 'done';
  } catch (error) {
    if (error instanceof WatchError) return 'changed';
    throw error;
  }
}

async function types(host, port, run, prefix) {
  for (const RESP of [2, 3]) {
    const client = createClient(options(host, port, { RESP }));
    client.on('error', () => {});
    await client.connect();
    await tour(run, checks.of(client, `${prefix}:${RESP}`), `in RESP${RESP}`);
    client.destroy();
  }
  await tour(run, [authentication], '');
  async function authentication() {
    const stranger = createClient({ username: 'nobody', password: 'wrong', socket: { host, port, reconnectStrategy: false } });
    stranger.on('error', () => {});
    try {
      await stranger.connect();
    } catch (error) {
      if (error.message.includes('WRONGPASS')) return;
      throw error;
    }
    throw new Error('a wrong password is none');
  }
}

// With a client as its documentation begins with.
async function byDefault(host, port, run, kind, prefix) {
  const client = createClient({ url: `redis://${host}:${port}` });
  client.on('error', () => {});
  await client.connect();
  await client.ping();
  // Defaults that are kept in private fields are read where they are set.
  const source = readFileSync(require.resolve('@redis/client/dist/lib/client/socket.js'), 'utf8');
  const [, connectTimeout] = /connectTimeout \?\? (\d+)/.exec(source) ?? [];
  const [, reconnectStrategy] = /const delay = (.*);/.exec(source) ?? [];
  const { socketTimeout } = client.options.socket ?? {};
  const { commandOptions, RESP } = client.options;
  const settings = { connectTimeout, socketTimeout, reconnectStrategy, RESP, commandOptions };
  const kinds = {
    multi: (x, y) => client.multi().incr(x).incr(y).exec(),
    pipeline: (x, y) => Promise.all([client.incr(x), client.incr(y)]),
    watch: async (x, y) => {
      for (;;) {
        try {
          await client.watch(x);
          const value = Number(await client.get(x));
          return await client.multi().set(x, value + 1).incr(y).exec();
        } catch (error) {
          if (!(error instanceof WatchError)) throw error;
        }
      }
    },
  };
  await defaults(`node-redis ${version}`, settings, kinds, kind, prefix);
}

main(`node-redis ${version}`, { transfer: transferAll, watch: sellAll, types, defaults: byDefault });
