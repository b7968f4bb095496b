// A node of hashicorp/raft that writes all the time while it is the leader. A follower that refuses the pre-vote of the node that it holds for its leader says so.
//
//	raft_prevote NODE NODES...
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

type counter struct{ applied int }

func (c *counter) Apply(*raft.Log) interface{}         { c.applied++; return c.applied }
func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return nil, raft.ErrNothingNewToSnapshot }
func (c *counter) Restore(io.ReadCloser) error         { return nil }

// log looks at the lines that raft writes. A request is observed, and then answered, by one goroutine.
type log struct{ candidate atomic.Value }

func (l *log) Write(line []byte) (int, error) {
	const refusal = "rejecting pre-vote request since we have a leader"
	candidate, _ := l.candidate.Load().(string)
	if text := string(line); strings.Contains(text, refusal) && strings.Contains(text, "leader-id="+candidate+"\n") {
		fmt.Println("refused the pre-vote of its own leader,", candidate)
	}
	return os.Stderr.Write(line)
}

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

func main() {
	self, nodes := os.Args[1], os.Args[2:]
	watcher := &log{}
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(self)
	config.LogLevel = "WARN"
	config.LogOutput = watcher
	transport, err := raft.NewTCPTransport(string(address(self)), nil, 3, 2*time.Second, watcher)
	must(err)
	store := raft.NewInmemStore()
	var members raft.Configuration
	for _, node := range nodes {
		members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(node), Address: address(node)})
	}
	must(raft.BootstrapCluster(config, store, store, raft.NewInmemSnapshotStore(), transport, members))
	node, err := raft.NewRaft(config, &counter{}, store, store, raft.NewInmemSnapshotStore(), transport)
	must(err)
	node.RegisterObserver(raft.NewObserver(nil, false, func(seen *raft.Observation) bool {
		if request, is := seen.Data.(raft.RequestPreVoteRequest); is {
			watcher.candidate.Store(string(request.ID))
		}
		return false
	}))
	for {
		if node.State() == raft.Leader && node.Apply([]byte("entry"), time.Second).Error() == nil {
			fmt.Println("committed")
		}
		time.Sleep(50 * time.Millisecond)
	}
}
