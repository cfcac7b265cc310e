// The service's definition, for client.mjs and server.mjs.

import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const file = new URL("greeter.proto", import.meta.url).pathname;
export const { Greeter } = grpc.loadPackageDefinition(loader.loadSync(file)).greeter;
