// Eight requests at once by fetch, which keeps its connections; then what each of the server's workers had to do.
'use strict';

async function main(url) {
  const body = Buffer.alloc(100_000, 1);
  const ask = () => fetch(url, { method: 'POST', body }).then((answer) => answer.text());
  const said = await Promise.all(Array.from({ length: 8 }, ask));
  process.stdout.write(said.join(''));
  process.stdout.write(await (await fetch(`${url}/counts`)).text());
}

main(process.argv[2]);
