// Moves 30 from ada to bob, in one transaction: transfer.js PORT
const { createClient } = require('redis');

(async () => {
  const bank = await createClient({ url: `redis://127.0.0.1:${process.argv[2]}` }).connect();
  await bank.mSet({ 'account:ada': '100', 'account:bob': '0' });
  console.log(await bank.multi().decrBy('account:ada', 30).incrBy('account:bob', 30).exec());
  bank.destroy();
})().catch((error) => { console.error(String(error)); process.exit(1); });
