// Command peers is the control plane and the client of bench_relay.py, as two programs in one.
//
//	peers control-plane                prints the port that it listens on, and serves
//	peers client -target ADDRESS ...   runs one pattern over one stream and prints its figures
//
// Messages are raw bytes on both sides, so that nothing but the transport and the relay between
// them is measured. The client tells the control plane what to do in the cluster of its node:
// "echo SIZE RESOURCES", one response for each request, or "push SIZE RESOURCES COUNT".
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	service = "envoy.service.discovery.v3.AggregatedDiscoveryService"
	cluster = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	// Field numbers in both dialects' responses.
	version, resource, typeURL, nonce = 1, 2, 4, 5
	nodeID, nodeCluster               = 1, 2
)

// dialect has the field numbers of a request, and how a resource is put into a response.
type dialect struct {
	method                        string
	node, version, typeURL, nonce protowire.Number
	wrapped                       bool
}

var dialects = map[string]dialect{
	"sotw":  {method: "StreamAggregatedResources", version: 1, node: 2, typeURL: 4, nonce: 5},
	"delta": {method: "DeltaAggregatedResources", node: 1, typeURL: 2, nonce: 6, wrapped: true},
}

// raw passes messages as bytes.
type raw struct{}

func (raw) Name() string                  { return "proto" }
func (raw) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

func (of dialect) stream() grpc.StreamDesc {
	handle := func(_ any, stream grpc.ServerStream) error { return of.serve(stream) }
	return grpc.StreamDesc{StreamName: of.method, ServerStreams: true, ClientStreams: true, Handler: handle}
}

func field(to []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), value)
}

// find returns the last value of a length-delimited field.
func find(message []byte, wanted protowire.Number) string {
	var found []byte
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			log.Fatal("a message is damaged")
		}
		message = message[size:]
		if kind == protowire.BytesType && number == wanted {
			found, _ = protowire.ConsumeBytes(message)
		}
		message = message[protowire.ConsumeFieldValue(number, kind, message):]
	}
	return string(found)
}

// response has resources of equal size, each with a name as a serialiser would write it.
func (of dialect) response(size, resources int) []byte {
	head := field(nil, version, []byte("v1"))
	tail := field(field(nil, typeURL, []byte(cluster)), nonce, []byte("nonce"))
	for number := range resources {
		name := []byte(fmt.Sprintf("outbound|80||s%d.default.svc", number))
		filling := max(1, (size-len(head)-len(tail))/(resources-number)-len(cluster)-len(name)-12)
		if of.wrapped {
			filling = max(1, filling-len(name)-8)
		}
		body := field(field(nil, 1, name), 4, make([]byte, filling))
		packed := field(field(nil, 1, []byte(cluster)), 2, body)
		if of.wrapped {
			packed = field(field(field(nil, 1, []byte("v1")), 2, packed), 3, name)
		}
		head = field(head, resource, packed)
	}
	return append(head, tail...)
}

// request without an order is an ACK.
func (of dialect) request(order string) []byte {
	var message []byte
	if order != "" {
		id := field(nil, nodeID, []byte("sidecar~10.0.0.1~bench.default~default.svc.cluster.local"))
		message = field(message, of.node, field(id, nodeCluster, []byte(order)))
	}
	if of.version != 0 {
		message = field(message, of.version, []byte("v1"))
	}
	return field(field(message, of.typeURL, []byte(cluster)), of.nonce, []byte("nonce"))
}

// serve reads while it writes: a control plane that did not would wait for ever with a client that
// waits with its ACKs.
func (of dialect) serve(stream grpc.ServerStream) error {
	type order struct{ size, resources, count int }
	orders, ended := make(chan order, 16), make(chan error, 1)
	go func() {
		for {
			var message []byte
			if err := stream.RecvMsg(&message); err != nil {
				ended <- err
				return
			}
			what, next := "", order{count: 1}
			words := find([]byte(find(message, of.node)), nodeCluster)
			n, _ := fmt.Sscanf(words, "%s %d %d %d", &what, &next.size, &next.resources, &next.count)
			if n >= 3 {
				orders <- next
			} // else it is an ACK
		}
	}()
	type kind struct{ size, resources int }
	made := map[kind][]byte{}
	for {
		select {
		case err := <-ended:
			if err == io.EOF {
				return nil
			}
			return err
		case next := <-orders:
			wanted := kind{next.size, next.resources}
			if made[wanted] == nil {
				clear(made) // one of 100 MiB at a time
				made[wanted] = of.response(next.size, next.resources)
			}
			for range next.count {
				if err := stream.SendMsg(made[wanted]); err != nil {
					return err
				}
			}
		}
	}
}

func controlPlane() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.ForceServerCodec(raw{}),
		grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32),
	)
	described := grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil)}
	for _, each := range dialects {
		described.Streams = append(described.Streams, each.stream())
	}
	server.RegisterService(&described, nil)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(server.Serve(listener))
}

type figures struct {
	Bytes   int     `json:"bytes"`   // of one response
	Count   int     `json:"count"`   // responses
	Seconds float64 `json:"seconds"` // for all of them
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
}

func client(arguments []string) {
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	target := flags.String("target", "", "unix:PATH or HOST:PORT")
	pattern := flags.String("pattern", "echo", "echo, push, or acked: pushed, and each one answered")
	name := flags.String("dialect", "sotw", "sotw or delta")
	size := flags.Int("size", 1000, "bytes of a response")
	resources := flags.Int("resources", 1, "in a response")
	count := flags.Int("count", 100, "responses that are measured")
	warm := flags.Int("warm", 0, "responses before that, one by one")
	_ = flags.Parse(arguments)

	// Windows are fixed, as Envoy's are. Else grpc-go sends a ping with each message to measure them.
	channel, err := grpc.NewClient(
		*target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(16<<20), grpc.WithInitialConnWindowSize(24<<20),
	)
	if err != nil {
		log.Fatal(err)
	}
	of := dialects[*name]
	described := of.stream()
	call, err := channel.NewStream(
		context.Background(), &described, "/"+service+"/"+of.method,
		grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(math.MaxInt32),
	)
	if err != nil {
		log.Fatal(err)
	}
	send := func(message []byte) {
		if err := call.SendMsg(message); err != nil {
			log.Fatal("sending: ", err)
		}
	}
	got := 0
	receive := func() {
		var message []byte
		if err := call.RecvMsg(&message); err != nil {
			log.Fatal("receiving: ", err)
		}
		got = len(message)
	}

	echo, ack := of.request(fmt.Sprintf("echo %d %d", *size, *resources)), of.request("")
	for range *warm {
		send(echo)
		receive()
	}
	var taken []float64
	began := time.Now()
	if *pattern == "echo" {
		for range *count {
			sent := time.Now()
			send(echo)
			receive()
			taken = append(taken, float64(time.Since(sent).Nanoseconds())/1e6)
		}
	} else {
		send(of.request(fmt.Sprintf("push %d %d %d", *size, *resources, *count)))
		for range *count {
			receive()
			if *pattern == "acked" {
				send(ack)
			}
		}
	}
	done := figures{Bytes: got, Count: *count, Seconds: time.Since(began).Seconds()}
	if slices.Sort(taken); len(taken) > 0 {
		done.P50, done.P99 = taken[len(taken)/2], taken[len(taken)*99/100]
	}
	_ = json.NewEncoder(os.Stdout).Encode(done)
}

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 && os.Args[1] == "control-plane" {
		controlPlane()
	} else if len(os.Args) > 1 && os.Args[1] == "client" {
		client(os.Args[2:])
	} else {
		log.Fatal("usage: peers control-plane | peers client -target ADDRESS")
	}
}
