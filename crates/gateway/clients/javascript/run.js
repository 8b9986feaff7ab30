// What the programs of both clients share: counting, patience, and the line that is printed. ../README.md has the contract.
'use strict';

// A server that does not answer for so long is given up, in ms.
const PATIENCE_MS = 30_000;

// Words of errors after which nothing was done and trying again is right.
const TRY_AGAIN = ['TRYAGAIN', 'LOADING', 'CLUSTERDOWN', 'MASTERDOWN'];

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Run {
  constructor(client, mode) {
    this.report = { client, mode, committed: 0, unknown: 0, attempts: 0, unknown_ids: [], errors: [] };
    this.deadline = Date.now() + PATIENCE_MS;
  }

  attempt() {
    if (Date.now() > this.deadline) throw new Error(`no commit in ${PATIENCE_MS} ms`);
    this.report.attempts += 1;
  }

  committed() {
    this.report.committed += 1;
    this.deadline = Date.now() + PATIENCE_MS;
  }

  unknown(id) {
    this.report.unknown += 1;
    this.report.unknown_ids.push(id);
  }

  // One piece of work until it is done or nobody knows. `attempt` answers 'done', or 'changed' where what it watched was
  // changed, and throws; it says by `state.sent` whether EXEC may have gone out. `isAnswer` tells an error that the server
  // answered from a connection that was lost.
  async untilDone(id, attempt, isAnswer, awaitServer) {
    for (;;) {
      this.attempt();
      const state = { sent: false };
      try {
        if ((await inTime(attempt(state))) === 'done') {
          this.committed();
          return;
        }
      } catch (error) {
        if (isAnswer(error)) {
          if (error.message.startsWith('UNKNOWN')) {
            this.unknown(id);
            return;
          }
          if (!mayTryAgain(error)) throw error;
          await pause(20);
        } else if (error instanceof Wrong) {
          throw error;
        } else {
          await awaitServer();
          if (state.sent) {
            this.unknown(id);
            return;
          }
        }
      }
    }
  }
}

// What an answer shows to be wrong: no error of the server and no lost connection.
class Wrong extends Error {}

function mayTryAgain(error) {
  const texts = [error, ...(error.previousErrors ?? [])].map((it) => it.message);
  return TRY_AGAIN.some((word) => texts.some((text) => text.includes(word)));
}

// A promise that is given up when nothing comes of it.
function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Wrong(`no answer in ${PATIENCE_MS} ms`)), PATIENCE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// What reading answers, however often the connection is lost meanwhile.
async function untilRead(read, isAnswer, awaitServer) {
  for (;;) {
    try {
      return await inTime(read());
    } catch (error) {
      if (isAnswer(error) || error instanceof Wrong) throw error;
      await awaitServer();
    }
  }
}

// Until `ping` is answered.
async function untilAnswered(ping) {
  for (const deadline = Date.now() + PATIENCE_MS; ; await pause(20)) {
    try {
      await inTime(ping());
      return;
    } catch (error) {
      if (Date.now() > deadline) throw new Wrong(`the server does not come back: ${error.message}`);
    }
  }
}

function checkTransfer(id, total, ada, bob, isNew) {
  if (Number(ada) + Number(bob) !== total) throw new Wrong(`${id} saw ${ada} and ${bob}, which do not make ${total}`);
  if (isNew !== 1) throw new Wrong(`${id} was in the ledger before`);
}

const amount = () => Math.floor(Math.random() * 21) - 10;

// Runs the program: `modes` has a function for each mode, of host, port, the run and the arguments that are left.
async function main(client, modes) {
  const [host, port, mode, ...rest] = process.argv.slice(2);
  if (!Object.hasOwn(modes, mode ?? '') || rest.length < (mode === 'types' ? 1 : 2)) {
    console.error('usage: PROGRAM HOST PORT (transfer | watch) COUNT WORKER\n       PROGRAM HOST PORT types PREFIX');
    console.error('       PROGRAM HOST PORT defaults (multi | watch | pipeline) PREFIX');
    process.exit(2);
  }
  const run = new Run(client, mode);
  try {
    await modes[mode](host, Number(port), run, ...rest);
  } catch (error) {
    run.report.errors.push(`${error.name}: ${error.message}`);
  }
  // What the client does by default is said already.
  if (mode !== 'defaults' || run.report.errors.length > 0) console.log(JSON.stringify(run.report));
  process.exit(run.report.errors.length > 0 ? 1 : 0);
}

// Runs checks one after the other and counts them.
async function tour(run, checks, suffix) {
  for (const check of checks) {
    run.report.attempts += 1;
    try {
      await check();
      run.report.committed += 1;
    } catch (error) {
      run.report.errors.push(`${check.name || 'check'} ${suffix}: ${error.name}: ${error.message}`);
    }
  }
}

module.exports = { PATIENCE_MS, Wrong, amount, checkTransfer, main, pause, tour, untilAnswered, untilRead };
