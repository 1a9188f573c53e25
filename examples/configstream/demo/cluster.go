package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// cluster is three nodes, each of which serves the configuration of all: a document
// with those that are up, whenever that changes.
type cluster struct {
	timeline timeline
	options  options
	nodes    []*node

	mu       sync.Mutex // guards the following and the nodes
	revision int
	changed  chan struct{} // closed when the revision changes
}

type node struct {
	address string       // host and port
	server  *http.Server // nil while it is down
	streams int
}

func newCluster(t timeline, o options) (*cluster, error) {
	c := &cluster{timeline: t, options: o, changed: make(chan struct{})}
	for range 3 {
		c.nodes = append(c.nodes, &node{address: net.JoinHostPort(o.host, "0")})
	}
	if err := c.start(c.nodes...); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// play is what the nodes do, at parts of the duration of the demo.
func (c *cluster) play(ctx context.Context, duration time.Duration) error {
	var first []*node
	for _, act := range []struct {
		at float64
		do func() error
	}{
		{0.12, func() error { first = []*node{c.streaming()}; return c.stop(first...) }},
		{0.24, func() error { return c.start(first...) }},
		{1. / 3, func() error { return c.stop(c.nodes...) }},
		{0.5, func() error { return c.start(c.nodes[1:]...) }},
	} {
		if !c.timeline.SleepUntil(ctx, time.Duration(act.at*float64(duration))) {
			return nil
		}
		if err := act.do(); err != nil {
			return err
		}
	}
	return nil
}

// start brings nodes up, on the port that they had before.
func (c *cluster) start(nodes ...*node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		listener, err := net.Listen("tcp", n.address)
		if err != nil {
			return err
		}
		n.address = listener.Addr().String()
		n.server = &http.Server{Handler: c.stream(n)}
		go n.server.Serve(listener)
	}
	c.change("up", nodes)
	return nil
}

// stop kills nodes, and their streams.
func (c *cluster) stop(nodes ...*node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		if n.server == nil {
			continue
		}
		if err := n.server.Close(); err != nil {
			return err
		}
		n.server = nil
	}
	c.change("down", nodes)
	return nil
}

// close ends the cluster.
func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.server != nil {
			n.server.Close()
		}
	}
}

// change makes a new revision. The caller holds mu.
func (c *cluster) change(to string, nodes []*node) {
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, n.address)
	}
	c.timeline.line("nodes", to+": "+strings.Join(addresses, ", "))
	c.revision++
	close(c.changed)
	c.changed = make(chan struct{})
}

// addresses returns the nodes, whether up or down.
func (c *cluster) addresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var addresses []string
	for _, n := range c.nodes {
		addresses = append(addresses, n.address)
	}
	return addresses
}

// streaming returns the node that is listened to, or any.
func (c *cluster) streaming() *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[max(slices.IndexFunc(c.nodes, func(n *node) bool { return n.streams > 0 }), 0)]
}

// stream serves the configuration.
func (c *cluster) stream(n *node) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != c.options.listener.Path {
			http.NotFound(w, r)
			return
		}
		c.count(n, 1)
		defer c.count(n, -1)
		heartbeat := time.NewTicker(c.options.heartbeat)
		defer heartbeat.Stop()
		for {
			line, changed := c.config()
			for unchanged := true; unchanged; line = "\n" {
				io.WriteString(w, line)
				http.NewResponseController(w).Flush()
				select {
				case <-heartbeat.C:
				case <-changed:
					unchanged = false
				case <-r.Context().Done():
					return
				}
			}
		}
	})
}

func (c *cluster) count(n *node, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.streams += by
}

// config returns the configuration as a line, and a channel that is closed when there is
// another.
func (c *cluster) config() (string, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	config := struct {
		Rev   int      `json:"rev"`
		Nodes []string `json:"nodes"`
	}{Rev: c.revision}
	for _, n := range c.nodes {
		if n.server != nil {
			_, port, _ := net.SplitHostPort(n.address)
			config.Nodes = append(config.Nodes, "$HOST:"+port)
		}
	}
	line, _ := json.Marshal(config) // of numbers and strings: there is no error
	return string(line) + "\n", c.changed
}
