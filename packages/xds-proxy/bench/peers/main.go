// Command peers is the control plane and the client of bench_relay.py, as two programs in one.
//
//	peers control-plane                prints the port that it listens on, and serves
//	peers client -target ADDRESS ...   runs one pattern over one stream and prints its figures
//
// Messages are raw bytes on both sides, so that nothing but the transport and the relay between
// them is measured. The client tells the control plane what to do in the version of its request:
// "echo SIZE", one response for each request, or "push SIZE COUNT".
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
	method  = "StreamAggregatedResources"
	cluster = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	// Ten resources a response, as the sizes are of a few services' configuration.
	resources = 10
	// Field numbers of DiscoveryRequest and DiscoveryResponse.
	version, node, resource, names, typeURL, nonce = 1, 2, 2, 3, 4, 5
)

// raw passes messages as bytes.
type raw struct{}

func (raw) Name() string                  { return "proto" }
func (raw) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

var stream = grpc.StreamDesc{StreamName: method, ServerStreams: true, ClientStreams: true, Handler: serve}

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

func response(size int) []byte {
	head := field(nil, version, []byte("v1"))
	tail := field(field(nil, typeURL, []byte(cluster)), nonce, []byte("nonce"))
	each := max(1, (size-len(head)-len(tail))/resources-len(cluster)-12)
	body := field(field(nil, 1, []byte(cluster)), 2, make([]byte, each))
	for range resources {
		head = field(head, resource, body)
	}
	return append(head, tail...)
}

func request(what string) []byte {
	id := field(nil, 1, []byte("sidecar~10.0.0.1~bench.default~default.svc.cluster.local"))
	message := field(field(nil, version, []byte(what)), node, id)
	return field(field(message, typeURL, []byte(cluster)), nonce, []byte("nonce"))
}

// serve reads while it writes: a control plane that did not would wait for ever with a client that
// waits with its ACKs.
func serve(_ any, stream grpc.ServerStream) error {
	type order struct{ size, count int }
	orders, ended := make(chan order, 16), make(chan error, 1)
	go func() {
		for {
			var message []byte
			if err := stream.RecvMsg(&message); err != nil {
				ended <- err
				return
			}
			what, next := "", order{count: 1}
			words := find(message, version)
			if n, _ := fmt.Sscanf(words, "%s %d %d", &what, &next.size, &next.count); n >= 2 {
				orders <- next
			} // else it is an ACK
		}
	}()
	made := map[int][]byte{}
	for {
		select {
		case err := <-ended:
			if err == io.EOF {
				return nil
			}
			return err
		case next := <-orders:
			if made[next.size] == nil {
				clear(made) // one of 100 MiB at a time
				made[next.size] = response(next.size)
			}
			for range next.count {
				if err := stream.SendMsg(made[next.size]); err != nil {
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
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{stream},
	}, nil)
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
	size := flags.Int("size", 1000, "bytes of a response")
	count := flags.Int("count", 100, "responses that are measured")
	warm := flags.Int("warm", 0, "responses before that, one by one")
	_ = flags.Parse(arguments)

	channel, err := grpc.NewClient(*target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	call, err := channel.NewStream(
		context.Background(), &stream, "/"+service+"/"+method,
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

	echo, ack := request(fmt.Sprintf("echo %d", *size)), request("v1")
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
		send(request(fmt.Sprintf("push %d %d", *size, *count)))
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
