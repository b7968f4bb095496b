#!/usr/bin/node
// Answers every request on a port (80 unless given) with a greeting.
const http = require('http');
const port = Number(process.argv[2] || 80);
http.createServer((request, response) => response.end(`hello from node to ${request.url}\n`))
  .listen(port, () => console.log(`listening on ${port}`));
