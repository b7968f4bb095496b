// A node of hashicorp/raft that, as the leader, writes all the time and gives up its leadership each second. A transfer without an error ends with another leader.
//
//	raft_transfer NODE NODES...
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/hashicorp/raft"
)

// Counter counts the entries that were applied.
type counter struct{ applied int }

func (c *counter) Apply(*raft.Log) interface{}         { c.applied++; return c.applied }
func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return nil, raft.ErrNothingNewToSnapshot }
func (c *counter) Restore(io.ReadCloser) error         { return nil }

func address(node string) raft.ServerAddress {
	found, err := net.LookupHost(node)
	must(err)
	return raft.ServerAddress(found[0] + ":7000")
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// anotherLeader returns another leader that this node sees within 3 s; none if it is the leader itself at the end, or knows none.
func anotherLeader(node *raft.Raft, self string) raft.ServerID {
	for range 300 {
		if _, leader := node.LeaderWithID(); leader != "" && leader != raft.ServerID(self) {
			return leader
		}
		time.Sleep(10 * time.Millisecond)
	}
	if node.State() != raft.Leader {
		return "nobody yet"
	}
	return ""
}

func main() {
	self, nodes := os.Args[1], os.Args[2:]
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(self)
	config.LogLevel = "WARN"
	transport, err := raft.NewTCPTransport(string(address(self)), nil, 3, 2*time.Second, os.Stderr)
	must(err)
	store := raft.NewInmemStore()
	var members raft.Configuration
	for _, node := range nodes {
		members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(node), Address: address(node)})
	}
	must(raft.BootstrapCluster(config, store, store, raft.NewInmemSnapshotStore(), transport, members))
	node, err := raft.NewRaft(config, &counter{}, store, store, raft.NewInmemSnapshotStore(), transport)
	must(err)
	go func() {
		for {
			if node.State() == raft.Leader {
				node.Apply([]byte("entry"), time.Second)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	for {
		time.Sleep(time.Second)
		if node.State() != raft.Leader {
			continue
		}
		if err := node.LeadershipTransfer().Error(); err != nil {
			fmt.Println("refused:", err)
			continue
		}
		if another := anotherLeader(node, self); another != "" {
			fmt.Println("granted to", another)
		} else {
			fmt.Println("granted, and still leader")
		}
	}
}
