// One of the JavaScript libraries at work: NAME HOST PORT JOBS. The last line it prints is JSON.
const [name, host, port, jobs] = [process.argv[2], process.argv[3], +process.argv[4], +process.argv[5]];
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const began = Date.now();
const seen = new Map();
const note = id => seen.set(id, (seen.get(id) || 0) + 1);
const until = async isDone => { while (!isDone() && Date.now() - began < 120000) await sleep(20); };

function tell(done, of, retried) {
  const twice = [...seen.values()].filter(count => count > 1).length;
  const a_second = Math.round(done / ((Date.now() - began) / 1000));
  console.log(JSON.stringify({ done, of, twice, retried, a_second, is_right: done === of && twice === 0 && retried }));
}

async function bullmq() {
  const { Queue, Worker } = require('bullmq');
  const connection = { host, port, maxRetriesPerRequest: null };
  const queue = new Queue('jobs', { connection });
  let done = 0, failed = 0;
  const worker = new Worker('jobs', async job => {
    if (job.name === 'flaky' && job.attemptsMade < 1) { failed++; throw new Error('once'); }
    note(job.id);
  }, { connection, concurrency: 4 });
  worker.on('completed', () => done++);
  worker.on('error', error => console.error(error.message));
  await queue.add('flaky', {}, { attempts: 3, backoff: 100 });
  await queue.add('late', {}, { delay: 500 });
  for (let at = 0; at < jobs; at += 50) {
    await queue.addBulk(Array.from({ length: Math.min(50, jobs - at) }, (_, more) => ({ name: 'job', data: { at: at + more } })));
  }
  await until(() => done >= jobs + 2);
  tell(done, jobs + 2, failed === 1);
  await worker.close();
  await queue.close();
}

async function bull() {
  const Bull = require('bull');
  const queue = new Bull('jobs', { redis: { host, port } });
  let done = 0, failed = 0;
  queue.process(4, async job => {
    if (job.data.flaky && job.attemptsMade < 1) { failed++; throw new Error('once'); }
    note(job.id);
  });
  queue.on('completed', () => done++);
  queue.on('error', error => console.error(error.message));
  await queue.add({ flaky: true }, { attempts: 3, backoff: 100 });
  for (let at = 0; at < jobs; at++) await queue.add({ at });
  await until(() => done >= jobs + 1);
  tell(done, jobs + 1, failed === 1);
  await queue.close();
}

async function bee() {
  const Bee = require('bee-queue');
  const queue = new Bee('jobs', { redis: { host, port }, activateDelayedJobs: true });
  let failed = 0;
  queue.process(4, async job => {
    if (job.data.flaky && failed < 1) { failed++; throw new Error('once'); }
    note(job.id);
  });
  await queue.ready();
  await queue.createJob({ flaky: true }).retries(2).save();
  for (let at = 0; at < jobs; at++) await queue.createJob({ at }).save();
  await queue.createJob({ late: true }).delayUntil(Date.now() + 300).save();
  await until(() => seen.size >= jobs + 2);
  tell(seen.size, jobs + 2, failed === 1);
  await queue.close(1000);
}

({ bullmq, bull, 'bee-queue': bee })[name]().then(() => process.exit(0), error => {
  console.error(error);
  process.exit(1);
});
