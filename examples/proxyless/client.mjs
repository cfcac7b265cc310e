// The caller, in Node: what client.py is in Python.
//
//     node client.mjs xds:///greeter.shop:50051 [COUNT] [SECONDS BETWEEN]

import grpc from "@grpc/grpc-js";
import xds from "@grpc/grpc-js-xds";
import { setTimeout as sleep } from "node:timers/promises";
import { Greeter } from "./greeter.mjs";

xds.register();

const [target, count = "0", seconds = "1"] = process.argv.slice(2);
// Used where the control plane asks for no TLS; gRPC wants it said.
const plaintext = grpc.credentials.createInsecure();
const client = new Greeter(target, new xds.XdsChannelCredentials(plaintext));

const sayHello = () =>
  new Promise((resolve) => {
    const metadata = new grpc.Metadata({ waitForReady: true }); // the configuration may not have come yet
    const options = { deadline: Date.now() + 20_000 };
    client.SayHello({ value: "ada" }, metadata, options, (error, answer) => resolve({ error, answer }));
  });

let failed = false;
for (let made = 0; count === "0" || made < Number(count); made++) {
  if (made) await sleep(Number(seconds) * 1000);
  const { error, answer } = await sayHello();
  failed ||= error !== null;
  console.log(error ? `${grpc.status[error.code]}: ${error.details}` : answer.value);
}
process.exit(failed ? 1 : 0);
