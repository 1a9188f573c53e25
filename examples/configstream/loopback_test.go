package configstream_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/examples/configstream"
)

// soon is how long a test on real connections waits for what takes milliseconds.
const soon = 10 * time.Second

// realNode is a node on a real port, that counts its connections.
type realNode struct {
	*httptest.Server
	conns atomic.Int32
}

func startNode(t *testing.T, network string, start func(*httptest.Server), h http.HandlerFunc) *realNode {
	n := &realNode{Server: httptest.NewUnstartedServer(h)}
	listener, err := net.Listen(network, "localhost:0")
	if err != nil {
		t.Skip(err) // such as no IPv6
	}
	n.Listener.Close()
	n.Listener = listener
	n.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			n.conns.Add(1)
		case http.StateClosed:
			n.conns.Add(-1)
		}
	}
	start(n.Server)
	t.Cleanup(n.Close)
	return n
}

// The stream over real connections: HTTP and HTTPS, HTTP/1.1 and HTTP/2, IPv4 and IPv6.
// S7: Run ends with its context, and leaves no connection and no goroutine.
func TestS7Loopback(t *testing.T) {
	h2 := func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }
	for _, test := range []struct {
		name, network string
		start         func(*httptest.Server)
		own           bool // the listener's own transport
		proto, host   string
	}{
		{"HTTP", "tcp4", (*httptest.Server).Start, false, "HTTP/1.1", "127.0.0.1:1"},
		{"HTTP, own transport", "tcp4", (*httptest.Server).Start, true, "HTTP/1.1", "127.0.0.1:1"},
		{"HTTP, IPv6", "tcp6", (*httptest.Server).Start, true, "HTTP/1.1", "[::1]:1"},
		{"HTTPS", "tcp4", (*httptest.Server).StartTLS, false, "HTTP/1.1", "127.0.0.1:1"},
		{"HTTPS, HTTP/2", "tcp4", h2, false, "HTTP/2.0", "127.0.0.1:1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := startNode(t, test.network, test.start, func(w http.ResponseWriter, r *http.Request) {
				for rev := 1; rev <= 2; rev++ {
					fmt.Fprintf(w, "{\"rev\":%d,\"proto\":%q,\"node\":\"$HOST:1\"}\n\n", rev, r.Proto)
					http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			})
			goroutines := runtime.NumGoroutine()
			cfg := configstream.Config{Logger: slog.New(slog.DiscardHandler)}
			if !test.own {
				cfg.Transport = n.Client().Transport
			}
			cfg.Nodes = func(context.Context) ([]string, error) { return []string{n.URL}, nil }
			got := make(chan configstream.Update, 10)
			cfg.OnConfig = func(u configstream.Update) { got <- u }
			l, err := configstream.New(cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- l.Run(ctx) }()

			for rev := 1; rev <= 2; rev++ {
				select {
				case u := <-got:
					assert.Equal(t, fmt.Sprintf(`{"rev":%d,"proto":%q,"node":%q}`, rev, test.proto, test.host), string(u.Config))
				case <-time.After(soon):
					t.Fatal("no configuration")
				}
			}
			cancel(errStop)
			select {
			case err := <-ended:
				assert.Equal(t, errStop, err)
			case <-time.After(soon):
				t.Fatal("Run has not returned")
			}
			assert.Eventually(t, func() bool { return n.conns.Load() == 0 }, soon, time.Millisecond, "connections")
			assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+1 }, soon, time.Millisecond, "goroutines")
		})
	}
}

// Each stream has a connection of its own, with HTTP/2 too: one that has gone dead is not
// used again.
func TestConnectionPerStream(t *testing.T) {
	h2 := func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }
	for proto, start := range map[string]func(*httptest.Server){"HTTP/1.1": (*httptest.Server).Start, "HTTP/2.0": h2} {
		t.Run(proto, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			var mu sync.Mutex
			peers, requests := map[string]bool{}, 0
			n := startNode(t, "tcp4", start, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintln(w)
				mu.Lock()
				defer mu.Unlock()
				peers[r.RemoteAddr] = true
				if requests++; requests == 4 {
					cancel(errStop)
				}
				assert.Equal(t, proto, r.Proto)
			})
			l, err := configstream.New(configstream.Config{
				Nodes:     func(context.Context) ([]string, error) { return []string{n.URL}, nil },
				Transport: n.Client().Transport,
				Logger:    slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			assert.Equal(t, errStop, l.Run(ctx))
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, 4, requests)
			assert.Len(t, peers, 4)
		})
	}
}

// S7: nothing is left of a dial that Run gives up, although net/http goes on with it
// after its request has ended.
func TestS7DialIsGivenUp(t *testing.T) {
	dialling, given := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	l, err := configstream.New(configstream.Config{
		Nodes: func(context.Context) ([]string, error) { return []string{"a"}, nil },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			close(dialling)
			<-ctx.Done()
			close(given)
			return nil, ctx.Err()
		}},
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	go func() {
		<-dialling
		cancel(errStop)
	}()
	assert.Equal(t, errStop, l.Run(ctx))
	select {
	case <-given:
	case <-time.After(soon):
		t.Fatal("the dial goes on")
	}
}

// S3, D54: when the node that serves the stream dies, the listener goes over to another.
func TestD54LoopbackFailover(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `{}`)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	nodes := map[string]*realNode{}
	var addresses []string
	for range 2 {
		n := startNode(t, "tcp4", (*httptest.Server).Start, handler)
		nodes[n.URL] = n
		addresses = append(addresses, n.URL)
	}
	got := make(chan string, 10)
	l, err := configstream.New(configstream.Config{
		Nodes:    func(context.Context) ([]string, error) { return addresses, nil },
		OnConfig: func(u configstream.Update) { got <- u.Node },
		Logger:   slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()

	first := <-got
	nodes[first].CloseClientConnections()
	nodes[first].Close()
	second := <-got
	assert.NotEqual(t, first, second)
	cancel()
	assert.Equal(t, context.Canceled, <-ended)
}
