// The called service, in Node: what server.py is in Python.

import grpc from "@grpc/grpc-js";
import xds from "@grpc/grpc-js-xds";
import { Greeter } from "./greeter.mjs";

xds.register();

const name = process.env.MESH_WORKLOAD ?? "server";
const address = `${process.env.HOST ?? "127.0.0.1"}:${process.env.PORT ?? "50051"}`;

// The SPIFFE id in the caller's certificate, which gRPC has checked.
const caller = (call) => {
  const names = call.getAuthContext().sslPeerCertificate?.subjectaltname ?? "";
  return names.split(", ").find((each) => each.startsWith("URI:"))?.slice("URI:".length) ?? null;
};

const server = new xds.XdsServer();
server.addService(Greeter.service, {
  SayHello: (call, answer) => {
    const told = { message: `hello, ${call.request.value}`, "served-by": name, caller: caller(call) };
    answer(null, { value: JSON.stringify(told) });
  },
});

// Used where the control plane asks for no TLS; gRPC wants it said.
const plaintext = grpc.ServerCredentials.createInsecure();
server.bindAsync(address, new xds.XdsServerCredentials(plaintext), (error) => {
  if (error) throw error;
  console.log(`${name} listens on ${address}`);
});

process.on("SIGTERM", () => server.tryShutdown(() => process.exit(0)));
