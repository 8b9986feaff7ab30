// What node-redis makes of answers, in its own types: a check for each.
'use strict';

const assert = require('node:assert/strict');
const { ErrorReply, RESP_TYPES } = require('redis');
const { createHash } = require('node:crypto');
const { pause } = require('./run.js');

const BINARY = Buffer.concat([Buffer.from(Array.from({ length: 256 }, (_, at) => at)), Buffer.from('\r\n$-1\r\n')]);

const plain = (object) => ({ ...object });

// The checks, of a client and a prefix of keys.
exports.of = (r, p) => [
  async function strings() {
    assert.equal(await r.set(`${p}:s`, 'a'), 'OK');
    assert.equal(await r.append(`${p}:s`, 'bc'), 3);
    assert.equal(await r.get(`${p}:s`), 'abc');
    assert.equal(await r.getRange(`${p}:s`, 1, 2), 'bc');
    assert.equal(await r.set(`${p}:s`, 'other', { condition: 'NX' }), null);
    assert.equal(await r.set(`${p}:s`, 'new', { GET: true }), 'abc');
    assert.equal(await r.mSet({ [`${p}:m1`]: '1', [`${p}:m2`]: '2', [`${p}:m3`]: '3' }), 'OK');
    assert.deepEqual(await r.mGet([`${p}:m1`, `${p}:absent`, `${p}:m3`]), ['1', null, '3']);
    assert.equal(await r.exists([`${p}:m1`, `${p}:m2`, `${p}:absent`]), 2);
    assert.equal(await r.del([`${p}:m1`, `${p}:m2`, `${p}:m3`]), 3);
  },
  async function integers() {
    assert.equal(await r.incr(`${p}:i`), 1);
    assert.equal(await r.incrBy(`${p}:i`, 41), 42);
    assert.equal(await r.decr(`${p}:i`), 41);
    assert.equal(Number(await r.incrByFloat(`${p}:f`, 1.5)), 1.5);
    await r.set(`${p}:big`, (2n ** 63n - 1n).toString());
    await assert.rejects(r.incr(`${p}:big`), (error) => error instanceof ErrorReply && /overflow/.test(error.message));
  },
  async function hashes() {
    assert.equal(await r.hSet(`${p}:h`, { a: '1', b: '2' }), 2);
    assert.deepEqual(plain(await r.hGetAll(`${p}:h`)), { a: '1', b: '2' });
    assert.deepEqual(await r.hmGet(`${p}:h`, ['b', 'absent']), ['2', null]);
    assert.equal(await r.hIncrBy(`${p}:h`, 'a', 4), 5);
    assert.equal(Number(await r.hExists(`${p}:h`, 'a')), 1);
    assert.equal(await r.hDel(`${p}:h`, ['a', 'absent']), 1);
    assert.equal(await r.hLen(`${p}:h`), 1);
    assert.deepEqual(plain(await r.hGetAll(`${p}:absent`)), {});
  },
  async function sets() {
    assert.equal(await r.sAdd(`${p}:set`, ['a', 'b', 'c']), 3);
    assert.deepEqual((await r.sMembers(`${p}:set`)).sort(), ['a', 'b', 'c']);
    const typed = await r.withTypeMapping({ [RESP_TYPES.SET]: Set }).sMembers(`${p}:set`);
    assert.deepEqual(new Set(typed), new Set(['a', 'b', 'c']));
    assert.equal(Number(await r.sIsMember(`${p}:set`, 'z')), 0);
    await r.sAdd(`${p}:set2`, ['b', 'c', 'd']);
    assert.deepEqual((await r.sInter([`${p}:set`, `${p}:set2`])).sort(), ['b', 'c']);
    assert.deepEqual((await r.sUnion([`${p}:set`, `${p}:set2`])).sort(), ['a', 'b', 'c', 'd']);
    assert.equal(await r.sRem(`${p}:set`, 'a'), 1);
  },
  async function sortedSets() {
    const members = [
      { score: 1, value: 'one' },
      { score: 0.5, value: 'half' },
      { score: Infinity, value: 'much' },
    ];
    assert.equal(await r.zAdd(`${p}:z`, members), 3);
    const ordered = (await r.zRangeWithScores(`${p}:z`, 0, -1)).map(plain);
    assert.deepEqual(ordered, [members[1], members[0], members[2]]);
    assert.equal(await r.zScore(`${p}:z`, 'half'), 0.5);
    assert.equal(await r.zScore(`${p}:z`, 'absent'), null);
    assert.equal(await r.zIncrBy(`${p}:z`, 0.25, 'half'), 0.75);
    assert.equal(await r.zRank(`${p}:z`, 'one'), 1);
    assert.equal(await r.zCount(`${p}:z`, '-inf', '(1'), 1);
  },
  async function lists() {
    assert.equal(await r.rPush(`${p}:l`, ['a', 'b', 'c']), 3);
    assert.deepEqual(await r.lRange(`${p}:l`, 0, -1), ['a', 'b', 'c']);
    assert.equal(await r.lIndex(`${p}:l`, -1), 'c');
    assert.equal(await r.lPop(`${p}:l`), 'a');
    assert.equal(await r.lMove(`${p}:l`, `${p}:l2`, 'LEFT', 'RIGHT'), 'b');
    assert.equal(await r.lLen(`${p}:l`), 1);
  },
  async function nils() {
    const absent = `${p}:absent`;
    const answers = [await r.get(absent), await r.hGet(absent, 'f'), await r.lPop(absent), await r.lIndex(absent, 0)];
    // An absent field of a hash may also be said as undefined.
    assert.deepEqual(answers.map((it) => it ?? null), [null, null, null, null]);
    assert.equal(await r.ttl(absent), -2);
    assert.deepEqual(await r.lRange(absent, 0, -1), []);
  },
  async function errors() {
    await r.rPush(`${p}:list`, 'a');
    const is = (words) => (error) => error instanceof ErrorReply && error.message.includes(words);
    await assert.rejects(r.get(`${p}:list`), is('WRONGTYPE'));
    await assert.rejects(r.incr(`${p}:list`), is('WRONGTYPE'));
    await assert.rejects(r.sendCommand(['NOSUCHCOMMAND']), is('unknown command'));
    await assert.rejects(r.sendCommand(['GET']), is('wrong number of arguments'));
  },
  async function pipelines() {
    const numbers = Array.from({ length: 1000 }, (_, number) => number);
    const written = await Promise.all(numbers.map((number) => r.set(`${p}:p:${number}`, String(number))));
    assert.deepEqual(new Set(written), new Set(['OK']));
    const read = numbers.reduce((pipe, number) => pipe.get(`${p}:p:${number}`), r.multi());
    assert.deepEqual(await read.execAsPipeline(), numbers.map(String));
    const mixed = [r.incr(`${p}:n`), r.lPush(`${p}:n`, 'a'), r.incr(`${p}:n`)];
    const [one, error, two] = await Promise.allSettled(mixed);
    assert.deepEqual([one.value, two.value], [1, 2]);
    assert.ok(error.reason instanceof ErrorReply);
  },
  async function binary() {
    const bytes = r.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
    const key = Buffer.concat([Buffer.from(p), Buffer.from([0, 255, 13, 10])]);
    await r.set(key, BINARY);
    assert.deepEqual(await bytes.get(key), BINARY);
    await r.hSet(`${p}:hb`, BINARY, BINARY);
    assert.deepEqual(await bytes.hVals(`${p}:hb`), [BINARY]);
    const long = 'x'.repeat(1_000_000);
    await r.set(`${p}:long`, long);
    assert.equal(await r.get(`${p}:long`), long);
  },
  async function blockingPop() {
    const own = await r.duplicate().on('error', () => {}).connect();
    try {
      const began = Date.now();
      assert.equal(await own.blPop(`${p}:queue`, 0.2), null);
      const took = Date.now() - began;
      assert.ok(took > 100 && took < 5000, `a BLPOP of 200 ms took ${took}`);
      setTimeout(() => r.rPush(`${p}:queue`, 'job').catch(() => {}), 200);
      assert.deepEqual(plain(await own.blPop(`${p}:queue`, 10)), { key: `${p}:queue`, element: 'job' });
    } finally {
      own.destroy();
    }
  },
  async function publishAndSubscribe() {
    const subscriber = await r.duplicate().on('error', () => {}).connect();
    try {
      let heard;
      const message = new Promise((resolve) => (heard = resolve));
      await subscriber.subscribe(`${p}:news`, heard);
      assert.equal(await r.publish(`${p}:news`, 'hello'), 1);
      assert.equal(await Promise.race([message, pause(5000)]), 'hello');
    } finally {
      subscriber.destroy();
    }
  },
  async function scan() {
    const names = Array.from({ length: 1000 }, (_, number) => `${p}:scan:${number}`);
    await Promise.all(names.map((name) => r.set(name, '1')));
    const found = new Set();
    for await (const keys of r.scanIterator({ MATCH: `${p}:scan:*`, COUNT: 100 })) keys.forEach((key) => found.add(key));
    assert.deepEqual([...found].sort(), names.sort());
  },
  async function scripts() {
    const script = `return redis.call('INCRBY', KEYS[1], ARGV[1]) -- ${p}`;
    const sha = createHash('sha1').update(script).digest('hex');
    const given = (amount) => ({ keys: [`${p}:script`], arguments: [amount] });
    await assert.rejects(r.evalSha(sha, given('1')), /NOSCRIPT/);
    assert.equal(await r.eval(script, given('5')), 5);
    assert.equal(await r.evalSha(sha, given('2')), 7);
    assert.deepEqual(await r.eval("return {1, 'two', false}", { keys: [`${p}:script`] }), [1, 'two', null]);
  },
  async function expiry() {
    assert.equal(await r.set(`${p}:e`, 'a', { expiration: { type: 'PX', value: 150 } }), 'OK');
    const left = await r.pTTL(`${p}:e`);
    assert.ok(left > 0 && left <= 150, `PTTL is ${left}`);
    assert.equal(Number(await r.expire(`${p}:absent`, 10)), 0);
    await r.set(`${p}:k`, 'a', { expiration: { type: 'EX', value: 100 } });
    assert.equal(Number(await r.persist(`${p}:k`)), 1);
    assert.equal(await r.ttl(`${p}:k`), -1);
    await pause(400);
    assert.equal(await r.get(`${p}:e`), null);
  },
];
