// What ioredis makes of answers, in its own types: a check for each.
'use strict';

const assert = require('node:assert/strict');
const { ReplyError } = require('ioredis');
const { createHash } = require('node:crypto');
const { pause } = require('./run.js');

const BINARY = Buffer.concat([Buffer.from(Array.from({ length: 256 }, (_, at) => at)), Buffer.from('\r\n$-1\r\n')]);

// The checks, of a client and a prefix of keys.
exports.of = (r, p) => [
  async function strings() {
    assert.equal(await r.set(`${p}:s`, 'a'), 'OK');
    assert.equal(await r.append(`${p}:s`, 'bc'), 3);
    assert.equal(await r.get(`${p}:s`), 'abc');
    assert.equal(await r.getrange(`${p}:s`, 1, 2), 'bc');
    assert.equal(await r.set(`${p}:s`, 'other', 'NX'), null);
    assert.equal(await r.set(`${p}:s`, 'new', 'GET'), 'abc');
    assert.equal(await r.mset({ [`${p}:m1`]: '1', [`${p}:m2`]: '2', [`${p}:m3`]: '3' }), 'OK');
    assert.deepEqual(await r.mget(`${p}:m1`, `${p}:absent`, `${p}:m3`), ['1', null, '3']);
    assert.equal(await r.exists(`${p}:m1`, `${p}:m2`, `${p}:absent`), 2);
    assert.equal(await r.del(`${p}:m1`, `${p}:m2`, `${p}:m3`), 3);
  },
  async function integers() {
    assert.equal(await r.incr(`${p}:i`), 1);
    assert.equal(await r.incrby(`${p}:i`, 41), 42);
    assert.equal(await r.decr(`${p}:i`), 41);
    assert.equal(Number(await r.incrbyfloat(`${p}:f`, 1.5)), 1.5);
    await r.set(`${p}:big`, (2n ** 63n - 1n).toString());
    await assert.rejects(r.incr(`${p}:big`), (error) => error instanceof ReplyError && /overflow/.test(error.message));
  },
  async function hashes() {
    assert.equal(await r.hset(`${p}:h`, { a: '1', b: '2' }), 2);
    assert.deepEqual({ ...(await r.hgetall(`${p}:h`)) }, { a: '1', b: '2' });
    assert.deepEqual(await r.hmget(`${p}:h`, 'b', 'absent'), ['2', null]);
    assert.equal(await r.hincrby(`${p}:h`, 'a', 4), 5);
    assert.equal(await r.hexists(`${p}:h`, 'a'), 1);
    assert.equal(await r.hdel(`${p}:h`, 'a', 'absent'), 1);
    assert.equal(await r.hlen(`${p}:h`), 1);
    assert.deepEqual({ ...(await r.hgetall(`${p}:absent`)) }, {});
  },
  async function sets() {
    assert.equal(await r.sadd(`${p}:set`, 'a', 'b', 'c'), 3);
    assert.deepEqual([...(await r.smembers(`${p}:set`))].sort(), ['a', 'b', 'c']);
    assert.equal(await r.sismember(`${p}:set`, 'z'), 0);
    await r.sadd(`${p}:set2`, 'b', 'c', 'd');
    assert.deepEqual([...(await r.sinter(`${p}:set`, `${p}:set2`))].sort(), ['b', 'c']);
    assert.deepEqual([...(await r.sunion(`${p}:set`, `${p}:set2`))].sort(), ['a', 'b', 'c', 'd']);
    assert.equal(await r.srem(`${p}:set`, 'a'), 1);
  },
  async function sortedSets() {
    assert.equal(await r.zadd(`${p}:z`, 1, 'one', 0.5, 'half', '+inf', 'much'), 3);
    const numbers = (flat) => flat.flat().map((it, at) => (at % 2 === 0 ? it : Number(String(it).replace('inf', 'Infinity'))));
    const ordered = numbers(await r.zrange(`${p}:z`, 0, -1, 'WITHSCORES'));
    assert.deepEqual(ordered, ['half', 0.5, 'one', 1, 'much', Infinity]);
    assert.equal(Number(await r.zscore(`${p}:z`, 'half')), 0.5);
    assert.equal(await r.zscore(`${p}:z`, 'absent'), null);
    assert.equal(Number(await r.zincrby(`${p}:z`, 0.25, 'half')), 0.75);
    assert.equal(await r.zrank(`${p}:z`, 'one'), 1);
    assert.equal(await r.zcount(`${p}:z`, '-inf', '(1'), 1);
  },
  async function lists() {
    assert.equal(await r.rpush(`${p}:l`, 'a', 'b', 'c'), 3);
    assert.deepEqual(await r.lrange(`${p}:l`, 0, -1), ['a', 'b', 'c']);
    assert.equal(await r.lindex(`${p}:l`, -1), 'c');
    assert.equal(await r.lpop(`${p}:l`), 'a');
    assert.equal(await r.lmove(`${p}:l`, `${p}:l2`, 'LEFT', 'RIGHT'), 'b');
    assert.equal(await r.llen(`${p}:l`), 1);
  },
  async function nils() {
    const absent = `${p}:absent`;
    const answers = [await r.get(absent), await r.hget(absent, 'f'), await r.lpop(absent), await r.lindex(absent, 0)];
    assert.deepEqual(answers, [null, null, null, null]);
    assert.equal(await r.ttl(absent), -2);
    assert.deepEqual(await r.lrange(absent, 0, -1), []);
  },
  async function errors() {
    await r.rpush(`${p}:list`, 'a');
    const is = (words) => (error) => error instanceof ReplyError && error.message.includes(words);
    await assert.rejects(r.get(`${p}:list`), is('WRONGTYPE'));
    await assert.rejects(r.incr(`${p}:list`), is('WRONGTYPE'));
    await assert.rejects(r.call('NOSUCHCOMMAND'), is('unknown command'));
    await assert.rejects(r.call('GET'), is('wrong number of arguments'));
  },
  async function pipelines() {
    const numbers = Array.from({ length: 1000 }, (_, number) => number);
    const writing = numbers.reduce((pipe, number) => pipe.set(`${p}:p:${number}`, number), r.pipeline());
    assert.deepEqual(await writing.exec(), numbers.map(() => [null, 'OK']));
    const reading = numbers.reduce((pipe, number) => pipe.get(`${p}:p:${number}`), r.pipeline());
    assert.deepEqual(await reading.exec(), numbers.map((number) => [null, String(number)]));
    const [one, wrong, two] = await r.pipeline().incr(`${p}:n`).lpush(`${p}:n`, 'a').incr(`${p}:n`).exec();
    assert.deepEqual([one, two], [[null, 1], [null, 2]]);
    assert.ok(wrong[0] instanceof ReplyError);
  },
  async function binary() {
    const key = Buffer.concat([Buffer.from(p), Buffer.from([0, 255, 13, 10])]);
    await r.set(key, BINARY);
    assert.deepEqual(await r.getBuffer(key), BINARY);
    await r.hset(`${p}:hb`, BINARY, BINARY);
    assert.deepEqual(await r.hvalsBuffer(`${p}:hb`), [BINARY]);
    const long = 'x'.repeat(1_000_000);
    await r.set(`${p}:long`, long);
    assert.equal(await r.get(`${p}:long`), long);
  },
  async function blockingPop() {
    const own = r.duplicate();
    try {
      const began = Date.now();
      assert.equal(await own.blpop(`${p}:queue`, 0.2), null);
      const took = Date.now() - began;
      assert.ok(took > 100 && took < 5000, `a BLPOP of 200 ms took ${took}`);
      setTimeout(() => r.rpush(`${p}:queue`, 'job').catch(() => {}), 200);
      assert.deepEqual(await own.blpop(`${p}:queue`, 10), [`${p}:queue`, 'job']);
    } finally {
      own.disconnect();
    }
  },
  async function publishAndSubscribe() {
    const subscriber = r.duplicate();
    try {
      const message = new Promise((resolve) => subscriber.once('message', (channel, text) => resolve([channel, text])));
      assert.equal(await subscriber.subscribe(`${p}:news`), 1);
      assert.equal(await r.publish(`${p}:news`, 'hello'), 1);
      assert.deepEqual(await Promise.race([message, pause(5000)]), [`${p}:news`, 'hello']);
    } finally {
      subscriber.disconnect();
    }
  },
  async function scan() {
    const names = Array.from({ length: 1000 }, (_, number) => `${p}:scan:${number}`);
    await names.reduce((pipe, name) => pipe.set(name, 1), r.pipeline()).exec();
    const found = new Set();
    for await (const keys of r.scanStream({ match: `${p}:scan:*`, count: 100 })) keys.forEach((key) => found.add(key));
    assert.deepEqual([...found].sort(), names.sort());
  },
  async function scripts() {
    const script = `return redis.call('INCRBY', KEYS[1], ARGV[1]) -- ${p}`;
    const sha = createHash('sha1').update(script).digest('hex');
    await assert.rejects(r.evalsha(sha, 1, `${p}:script`, 1), /NOSCRIPT/);
    // A command of one's own goes by EVALSHA first and by EVAL where the script is not there.
    r.defineCommand('increase', { numberOfKeys: 1, lua: script });
    assert.equal(await r.increase(`${p}:script`, 5), 5);
    assert.equal(await r.evalsha(sha, 1, `${p}:script`, 2), 7);
    assert.deepEqual(await r.eval("return {1, 'two', false}", 1, `${p}:script`), [1, 'two', null]);
  },
  async function expiry() {
    assert.equal(await r.set(`${p}:e`, 'a', 'PX', 150), 'OK');
    const left = await r.pttl(`${p}:e`);
    assert.ok(left > 0 && left <= 150, `PTTL is ${left}`);
    assert.equal(await r.expire(`${p}:absent`, 10), 0);
    await r.set(`${p}:k`, 'a', 'EX', 100);
    assert.equal(await r.persist(`${p}:k`), 1);
    assert.equal(await r.ttl(`${p}:k`), -1);
    await pause(400);
    assert.equal(await r.get(`${p}:e`), null);
  },
];
