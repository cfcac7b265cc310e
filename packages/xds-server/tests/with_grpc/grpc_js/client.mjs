// A gRPC client of xds:///web, told what to do by lines on stdin: "ask" calls and prints the
// answer, "status" prints the port of its own status service (CSDS).

import grpc from "@grpc/grpc-js";
import xds from "@grpc/grpc-js-xds";
import readline from "node:readline";
import { promisify } from "node:util";

xds.register();

const admin = new grpc.Server();
grpc.addAdminServicesToServer(admin);
const bind = promisify(admin.bindAsync.bind(admin));
const port = await bind("127.0.0.1:0", grpc.ServerCredentials.createInsecure());

const channel = new grpc.Client("xds:///web", grpc.credentials.createInsecure());
const asIs = (bytes) => bytes;

const ask = () =>
  new Promise((resolve) => {
    const metadata = new grpc.Metadata({ waitForReady: true });
    const options = { deadline: Date.now() + 50_000 };
    const answer = (error, word) => resolve(error ? error.message : word.toString());
    channel.makeUnaryRequest("/test.Who/AmI", asIs, asIs, Buffer.alloc(0), metadata, options, answer);
  });

for await (const line of readline.createInterface({ input: process.stdin })) {
  console.log(line === "ask" ? await ask() : port);
}
process.exit(0);
