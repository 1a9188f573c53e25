package configstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/respitehttp/respite/examples/internal/answer"
	"github.com/respitehttp/respite/examples/internal/apart"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

// grace is how long Run waits, once its context has ended, for a function that is still
// at work.
const grace = 10 * time.Millisecond

var errRunning = errors.New("configstream: Run is running already")

// Update is a configuration, as [Listener.Latest] and Config.OnConfig give it.
type Update struct {
	Node     string          // the address of the node that sent it, as Nodes gave it: user info included
	Config   json.RawMessage // the document, with the host in it; not to be modified
	Revision Revision
}

// Listener follows a configuration. It is made by [New], and safe for concurrent use.
type Listener struct {
	cfg    Config
	path   *url.URL
	client http.Client

	running atomic.Bool
	latest  atomic.Pointer[Update]
	calling chan struct{} // full while OnConfig runs, and with it guards what is stored in latest

	// What follows belongs to Run.

	tried []string // the URLs tried in this round, in order; a line reduces it to its own node
	waits int      // the number of the next wait between rounds; each line makes it 1
}

// New returns a Listener, or one error that lists every field of cfg that is outside
// its range, with its value and what is accepted. It starts nothing.
func New(cfg Config) (*Listener, error) {
	cfg, path, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Listener{
		cfg:     cfg,
		path:    path,
		client:  http.Client{Transport: &timeouts.Transport{Base: cfg.Transport}},
		calling: make(chan struct{}, 1),
	}, nil
}

// Latest returns the newest configuration, and false if there is none yet.
func (l *Listener) Latest() (Update, bool) {
	if u := l.latest.Load(); u != nil {
		return *u, true
	}
	return Update{}, false
}

// Run listens until ctx ends, and then returns context.Cause(ctx), whatever it is doing,
// with the stream closed: at once, or some milliseconds later if Nodes or OnConfig is at
// work, or a large document arrives; what is at work after 10 ms is left behind. It can
// be called again after that; while it runs, a second Run is refused with an error. The
// configuration held stays.
func (l *Listener) Run(ctx context.Context) error {
	if !l.running.CompareAndSwap(false, true) {
		return errRunning
	}
	defer l.running.Store(false)

	for l.waits = 1; ctx.Err() == nil; l.waits++ {
		l.round(ctx)
		l.wait(ctx)
	}
	return context.Cause(ctx)
}

// round tries each node once.
func (l *Listener) round(ctx context.Context) {
	nodes := l.shuffle(l.nodes(ctx))
	if len(nodes) > 0 {
		l.tried = l.tried[:0]
	}
	for _, n := range nodes {
		if ctx.Err() != nil {
			return
		}
		l.tried = append(l.tried, n.url)
		err := l.listen(ctx, n)
		if ctx.Err() == nil {
			l.report(n, err)
		}
	}
}

// shuffle returns the nodes of a round in random order. Those that the round before has
// tried since a line arrived come after the others, and the last of them is not first.
func (l *Listener) shuffle(nodes []node) []node {
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	var first, later []node
	for _, n := range nodes {
		if slices.Contains(l.tried, n.url) {
			later = append(later, n)
		} else {
			first = append(first, n)
		}
	}
	nodes = append(first, later...)
	if len(nodes) > 1 && len(l.tried) > 0 && nodes[0].url == l.tried[len(l.tried)-1] {
		other := 1 + rand.IntN(len(nodes)-1)
		nodes[0], nodes[other] = nodes[other], nodes[0]
	}
	return nodes
}

// nodes returns the nodes of a round.
func (l *Listener) nodes(ctx context.Context) []node {
	var addresses []string
	err := call(ctx, func() (err error) {
		addresses, err = l.cfg.Nodes(ctx)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		l.log(slog.LevelWarn, "no nodes", slog.String("error", transport.Redact(nil, err).Error()))
		return nil
	case len(addresses) == 0:
		l.log(slog.LevelWarn, "no nodes")
	}
	var nodes []node
	for i, address := range addresses {
		n, err := parseNode(address, l.path)
		if err != nil {
			l.log(slog.LevelWarn, "node failed", slog.Int("position", i+1), slog.String("error", err.Error()))
		} else if !slices.ContainsFunc(nodes, func(other node) bool { return n.url == other.url }) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// listen takes what a node sends, until the stream ends, and returns why it did: io.EOF
// is a normal end. The stream is closed then.
func (l *Listener) listen(ctx context.Context, n node) error {
	req, err := http.NewRequestWithContext(timeouts.WithLimits(ctx, l.cfg.Limits), http.MethodGet, n.url, nil)
	if err != nil {
		return errAddress
	}
	req.Header.Set("Accept", "application/json")
	req.Close = true // a connection that went dead with its stream is not to be used again
	// This ends a dial, too, that net/http goes on with after its request was given up.
	defer l.client.CloseIdleConnections()
	resp, err := answer.To(&l.client, req)
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return transport.StatusError(resp.StatusCode)
	}
	l.log(slog.LevelInfo, "stream begun", slog.String("node", n.name))
	lines := newLineReader(resp.Body, l.cfg.MaxLine)
	for {
		line, err := lines.next()
		if err != nil {
			return transport.Redact(req, err)
		}
		if err := l.take(ctx, n, line); err != nil {
			return err
		}
	}
}

// take makes a line the configuration, if it is one and not an old one.
func (l *Listener) take(ctx context.Context, n node, line []byte) error {
	document := bytes.Trim(line, " \t\r\n")
	if len(document) == 0 {
		l.heard(n)
		return nil
	}
	var u Update
	err := call(ctx, func() (err error) { // which takes a while if it is large
		u, err = n.read(document)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	l.heard(n)
	if held, ok := l.Latest(); !ok || u.Revision.supersedes(held.Revision) {
		l.hold(ctx, u)
	}
	return nil
}

// heard notes that a node has sent a line.
func (l *Listener) heard(n node) {
	l.waits, l.tried = 1, append(l.tried[:0], n.url)
}

// hold makes u the latest configuration and calls OnConfig.
func (l *Listener) hold(ctx context.Context, u Update) {
	select {
	case l.calling <- struct{}{}: // at once, unless another Run has left a call behind
	case <-ctx.Done():
		return
	}
	l.latest.Store(&u)
	if l.cfg.OnConfig == nil {
		<-l.calling
		return
	}
	err := call(ctx, func() error {
		defer func() { <-l.calling }()
		l.cfg.OnConfig(u)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		l.log(slog.LevelWarn, "OnConfig failed", slog.String("error", err.Error()))
	}
}

// call calls f and returns its error, or panics as f does. It waits for f, but once ctx
// has ended no longer than the grace: then f is left behind.
func call(ctx context.Context, f func() error) error {
	settled := apart.Go(f)
	select {
	case out := <-settled:
		return out.Result()
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case out := <-settled:
		return out.Result()
	case <-late.C:
		return context.Cause(ctx)
	}
}

// wait waits between two rounds.
func (l *Listener) wait(ctx context.Context) {
	d := l.cfg.Backoff.Delay(l.waits)
	if ctx.Err() == nil {
		l.log(slog.LevelInfo, "round over", slog.Duration("wait", d))
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// report logs why the stream of a node has ended.
func (l *Listener) report(n node, err error) {
	name := slog.String("node", n.name)
	switch status, _ := err.(transport.StatusError); {
	case err == io.EOF:
		l.log(slog.LevelInfo, "stream ended", name)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		l.log(slog.LevelWarn, "node refuses the credentials", name, slog.Int("status", int(status)))
	default:
		l.log(slog.LevelWarn, "node failed", name, slog.String("error", err.Error()))
	}
}

func (l *Listener) log(level slog.Level, message string, attrs ...slog.Attr) {
	cmp.Or(l.cfg.Logger, slog.Default()).LogAttrs(context.Background(), level, message, attrs...)
}
