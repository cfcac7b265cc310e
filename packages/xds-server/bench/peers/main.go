// Command peers is go-control-plane as bench_delta.py measures it.
//
//	peers snapshot 1000    one snapshot of 1 000 resources for every client
//	peers linear 1000      single resources
//
// It prints its address, and obeys lines on standard input: "push" changes one resource, "look"
// changes none. Each is answered with the processor time so far and the monotonic clock.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// one has some 200 bytes, as in the benchmark.
func one(number, change int) *endpoint.ClusterLoadAssignment {
	name := fmt.Sprintf("resource-%d", number)
	body := fmt.Sprintf("%s/%08d", name, change)
	return &endpoint.ClusterLoadAssignment{
		ClusterName: name,
		Endpoints: []*endpoint.LocalityLbEndpoints{{
			Locality: &core.Locality{SubZone: body + strings.Repeat("x", 180-len(body))},
		}},
	}
}

type everybody struct{}

func (everybody) ID(*core.Node) string { return "all" }

// snapshots serves one snapshot, replaced as a whole.
func snapshots(number int) (cache.Cache, func(int)) {
	all := make([]types.Resource, number)
	for each := range all {
		all[each] = one(each, 0)
	}
	store := cache.NewSnapshotCache(false, everybody{}, nil)
	set := func(change int) {
		all[0] = one(0, change)
		of := map[resource.Type][]types.Resource{resource.EndpointType: all}
		snapshot, err := cache.NewSnapshot(strconv.Itoa(change), of)
		if err == nil {
			err = store.SetSnapshot(context.Background(), "all", snapshot)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	set(0)
	return store, set
}

// linear serves single resources.
func linear(number int) (cache.Cache, func(int)) {
	all := make(map[string]types.Resource, number)
	for each := range number {
		all[fmt.Sprintf("resource-%d", each)] = one(each, 0)
	}
	store := cache.NewLinearCache(resource.EndpointType, cache.WithInitialResources(all))
	return store, func(change int) {
		if err := store.UpdateResource("resource-0", one(0, change)); err != nil {
			log.Fatal(err)
		}
	}
}

// tell prints the processor time so far and the monotonic clock, in seconds.
func tell() {
	var usage unix.Rusage
	var at unix.Timespec
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		log.Fatal(err)
	}
	say(map[string]any{
		"cpu": float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9,
		"at":  float64(at.Nano()) / 1e9,
	})
}

func say(facts map[string]any) {
	if err := json.NewEncoder(os.Stdout).Encode(facts); err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: peers snapshot|linear RESOURCES")
	}
	number, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	make, known := map[string]func(int) (cache.Cache, func(int)){
		"snapshot": snapshots, "linear": linear,
	}[os.Args[1]]
	if !known {
		log.Fatalf("%s is neither snapshot nor linear", os.Args[1])
	}
	store, change := make(number)
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	serves := grpc.NewServer(grpc.MaxConcurrentStreams(100_000))
	discovery.RegisterAggregatedDiscoveryServiceServer(
		serves, server.NewServer(context.Background(), store, nil),
	)
	go func() { log.Fatal(serves.Serve(listening)) }()
	say(map[string]any{"address": listening.Addr().String()})
	commands := bufio.NewScanner(os.Stdin)
	for changes := 1; commands.Scan(); changes++ {
		tell()
		if commands.Text() == "push" {
			change(changes)
		}
	}
}
