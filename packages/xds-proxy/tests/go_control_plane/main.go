// Command go_control_plane serves snapshots by go-control-plane, in state of the world and in delta.
//
// It prints the port that it listens on. Each line of its input is the name of a step, which is the
// version of the snapshot that every client gets from then on:
//
//	first     two clusters with endpoints, a listener and its route
//	update    one cluster is gone, the other and the route have changed
//	large     the clusters are a response of 10 MiB
//	bad       a cluster and a route that Envoy refuses
//	repaired  as update, with other timeouts
//
// Every response, every resource and a message in each cluster have fields that Envoy does not know.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"math"
	"net"
	"os"
	"strings"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	everybody = "every client"
	largeSize = 10 << 20
	// Envoy has no fields of these numbers.
	unknownText, unknownNumber, unknownFixed = 32100, 32101, 32102
)

// withUnknown gives a message fields that nothing here or in Envoy has a name for.
func withUnknown[M proto.Message](message M) M {
	fields := protowire.AppendTag(nil, unknownText, protowire.BytesType)
	fields = protowire.AppendString(fields, "not known to Envoy")
	fields = protowire.AppendTag(fields, unknownNumber, protowire.VarintType)
	fields = protowire.AppendVarint(fields, math.MaxUint64)
	fields = protowire.AppendTag(fields, unknownFixed, protowire.Fixed32Type)
	fields = protowire.AppendFixed32(fields, 7)
	message.ProtoReflect().SetUnknown(fields)
	return message
}

func packed(message proto.Message) *anypb.Any {
	any, err := anypb.New(message)
	if err != nil {
		log.Fatal(err)
	}
	return any
}

func ads() *core.ConfigSource {
	return &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
}

func edsCluster(name string, timeout time.Duration) *cluster.Cluster {
	return withUnknown(&cluster.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(timeout),
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig:     withUnknown(&cluster.Cluster_EdsClusterConfig{EdsConfig: ads()}),
	})
}

func assignment(name string, port uint32) *endpoint.ClusterLoadAssignment {
	address := &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &core.SocketAddress_PortValue{PortValue: port},
	}}}
	return withUnknown(&endpoint.ClusterLoadAssignment{
		ClusterName: name,
		Endpoints: []*endpoint.LocalityLbEndpoints{{LbEndpoints: []*endpoint.LbEndpoint{{
			HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{Address: address}},
		}}}},
	})
}

func httpListener(name, routes string) *listener.Listener {
	manager := &manager.HttpConnectionManager{
		StatPrefix: name,
		RouteSpecifier: &manager.HttpConnectionManager_Rds{Rds: &manager.Rds{
			RouteConfigName: routes, ConfigSource: ads(),
		}},
		HttpFilters: []*manager.HttpFilter{{
			Name:       "router",
			ConfigType: &manager.HttpFilter_TypedConfig{TypedConfig: packed(&router.Router{})},
		}},
	}
	return withUnknown(&listener.Listener{
		Name: name,
		Address: &core.Address{Address: &core.Address_Pipe{Pipe: &core.Pipe{
			Path: fmt.Sprintf("@go-control-plane-%d-%s", os.Getpid(), name),
		}}},
		FilterChains: []*listener.FilterChain{{Filters: []*listener.Filter{{
			Name:       "http",
			ConfigType: &listener.Filter_TypedConfig{TypedConfig: packed(manager)},
		}}}},
	})
}

func routes(name, cluster, prefix string, domains ...string) *route.RouteConfiguration {
	return withUnknown(&route.RouteConfiguration{
		Name: name,
		VirtualHosts: []*route.VirtualHost{{
			Name: name, Domains: domains,
			Routes: []*route.Route{{
				Match:  &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: prefix}},
				Action: &route.Route_Route{Route: &route.RouteAction{ClusterSpecifier: &route.RouteAction_Cluster{Cluster: cluster}}},
			}},
		}},
	})
}

// large returns clusters of this many bytes together.
func large(size int) []types.Resource {
	const count = 160
	text := strings.Repeat("0123456789abcdef", size/count/16)
	value := &structpb.Struct{Fields: map[string]*structpb.Value{"text": structpb.NewStringValue(text)}}
	made := []types.Resource{edsCluster("a", time.Second)}
	for number := range count {
		made = append(made, withUnknown(&cluster.Cluster{
			Name:                 fmt.Sprintf("large-%d", number),
			ConnectTimeout:       durationpb.New(time.Second),
			ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_STATIC},
			Metadata:             &core.Metadata{FilterMetadata: map[string]*structpb.Struct{"large": value}},
		}))
	}
	return made
}

func snapshot(step string) *cache.Snapshot {
	clusters := []types.Resource{edsCluster("a", 2*time.Second)}
	endpoints := []types.Resource{assignment("a", 9)}
	routing := routes("web", "a", "/", "*")
	switch step {
	case "first":
		clusters = []types.Resource{edsCluster("a", time.Second), edsCluster("b", time.Second)}
		endpoints = append(endpoints, assignment("b", 9))
		routing = routes("web", "b", "/", "*")
	case "update":
		endpoints = []types.Resource{assignment("a", 10)}
	case "large":
		clusters = large(largeSize)
	case "bad":
		clusters = append(clusters, edsCluster("bad", -time.Second))
		routing = routes("web", "a", "/", "twice.example", "twice.example")
	case "repaired":
		clusters = []types.Resource{edsCluster("a", 3*time.Second)}
		routing = routes("web", "a", "/repaired", "*")
	default:
		log.Fatalf("there is no step %q", step)
	}
	made, err := cache.NewSnapshot(step, map[resource.Type][]types.Resource{
		resource.ClusterType:  clusters,
		resource.EndpointType: endpoints,
		resource.ListenerType: {httpListener("web", "web")},
		resource.RouteType:    {routing},
	})
	if err != nil {
		log.Fatal(err)
	}
	return made
}

// wait slows down what go-control-plane does after a refusal in state of the world: it sends the same
// again at once.
func wait(_ int64, request *discovery.DiscoveryRequest) error {
	if request.ErrorDetail != nil {
		time.Sleep(time.Second / 2)
	}
	return nil
}

type sameForAll struct{}

func (sameForAll) ID(*core.Node) string { return everybody }

// stream gives every response a field that Envoy does not know.
type stream struct{ grpc.ServerStream }

func (s stream) SendMsg(message any) error {
	return s.ServerStream.SendMsg(withUnknown(proto.Clone(message.(proto.Message))))
}

func intercept(service any, under grpc.ServerStream, _ *grpc.StreamServerInfo, serve grpc.StreamHandler) error {
	return serve(service, stream{under})
}

func main() {
	log.SetFlags(0)
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	snapshots := cache.NewSnapshotCache(true, sameForAll{}, nil)
	streams := grpc.NewServer(
		grpc.StreamInterceptor(intercept),
		grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32),
	)
	discovery.RegisterAggregatedDiscoveryServiceServer(
		streams,
		server.NewServer(context.Background(), snapshots, server.CallbackFuncs{StreamRequestFunc: wait}),
	)
	go func() { log.Fatal(streams.Serve(socket)) }()
	fmt.Println(socket.Addr().(*net.TCPAddr).Port)
	steps := bufio.NewScanner(os.Stdin)
	for steps.Scan() {
		if err := snapshots.SetSnapshot(context.Background(), everybody, snapshot(steps.Text())); err != nil {
			log.Fatal(err)
		}
	}
}
