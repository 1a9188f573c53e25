package configstream_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/examples/configstream"
	"github.com/respitehttp/respite/httptestutil"
)

var soak = flag.Bool("soak", false, "run the soak test of the stream listener for 10,000 rounds instead of 300")

// wreck is a transport whose dials fail in every way, and that watches the listener.
type wreck struct {
	t    *testing.T
	base *http.Transport

	mu       sync.Mutex
	last     map[string]time.Time // the last attempt on each node
	attempts int
	conns    int
}

func (w *wreck) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.attempts++
	now := time.Now()
	if !now.After(w.last[req.URL.Host]) {
		w.t.Errorf("two attempts on %s at %v", req.URL.Host, now)
	}
	w.last[req.URL.Host] = now
	w.mu.Unlock()
	return w.base.RoundTrip(req)
}

func (w *wreck) CloseIdleConnections() { w.base.CloseIdleConnections() }

func (w *wreck) dial(next func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		switch rand.IntN(8) {
		case 0:
			return nil, errors.New("refused")
		case 1: // for longer than the header may take
			select {
			case <-time.After(15 * time.Second):
				return nil, errors.New("no route")
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conns++
		return &wreckedConn{Conn: conn, w: w}, nil
	}
}

type wreckedConn struct {
	net.Conn
	w    *wreck
	once sync.Once
}

func (c *wreckedConn) Close() error {
	c.once.Do(func() {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.w.conns--
	})
	return c.Conn.Close()
}

// fail answers in one of the ways in which a stream can go.
func (w *wreck) fail(rw http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(rw).Flush
	pause := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
	send := func(s string) {
		io.WriteString(rw, s)
		flush()
	}
	switch rand.IntN(14) {
	case 0:
		pause(time.Minute) // no header
	case 1:
		rw.WriteHeader(http.StatusServiceUnavailable)
		for r.Context().Err() == nil { // an answer that does not end
			send("no")
			pause(time.Second)
		}
	case 2:
		http.Error(rw, "who?", http.StatusUnauthorized)
	case 3:
		http.Redirect(rw, r, "http://elsewhere/", http.StatusFound)
	case 4: // ends at once
	case 5:
		flush()
		panic(http.ErrAbortHandler)
	case 6:
		send("\n\n\n")
		panic(http.ErrAbortHandler)
	case 7:
		send(`{"rev":` + strconv.Itoa(rand.IntN(1000)) + "}\n")
	case 8:
		send("{}\n")
		pause(3 * time.Second)
		send("nonsense\n")
		pause(time.Hour)
	case 9:
		send(`{"half":`)
	case 10:
		send(strings.Repeat("x", 2000))
		pause(time.Hour)
	case 11:
		send("\n") // then silence
		pause(time.Hour)
	case 12:
		for range rand.IntN(20) { // healthy for a while
			send("\n{}\n")
			pause(time.Minute)
		}
	case 13:
		for range 20 { // a line that drips
			send(" ")
			pause(time.Minute)
		}
	}
}

// Nodes that fail in every way, for thousands of rounds: no wait of zero, no two attempts
// at one instant on a node, and in the end no connection, no growth, and no goroutine: the
// bubble would not end.
func TestSoak(t *testing.T) {
	rounds := 300
	if *soak {
		rounds = 10_000
	}
	synctest.Test(t, func(t *testing.T) {
		w := &wreck{t: t, last: map[string]time.Time{}}
		server := httptestutil.NewServer(t, http.HandlerFunc(w.fail))
		server.Transport.DialContext = w.dial(server.Transport.DialContext)
		w.base = server.Transport

		ctx, cancel := context.WithCancelCause(t.Context())
		asked, taken, lastAsked := 0, 0, time.Time{}
		var lastAttempts int
		var early, late runtime.MemStats
		l, err := configstream.New(configstream.Config{
			Nodes: func(context.Context) ([]string, error) {
				now := time.Now()
				w.mu.Lock()
				if w.attempts > 0 {
					assert.NotEqual(t, lastAttempts, w.attempts)
				}
				lastAttempts = w.attempts
				for _, at := range w.last {
					assert.GreaterOrEqual(t, now.Sub(at), 100*time.Millisecond, "a wait between rounds")
				}
				w.mu.Unlock()
				assert.GreaterOrEqual(t, now.Sub(lastAsked), 100*time.Millisecond)
				lastAsked = now
				switch asked++; asked {
				case rounds / 10:
					heap(&early)
				case rounds:
					heap(&late)
					time.AfterFunc(time.Duration(rand.IntN(int(time.Minute))), func() { cancel(errStop) })
				}
				return []string{"a", "b", "c", "d"}, nil
			},
			Transport: w,
			OnConfig: func(configstream.Update) {
				taken++
				time.Sleep(time.Duration(rand.IntN(5)) * time.Second)
			},
			MaxLine: 1000,
			Logger:  slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		start := time.Now()
		assert.Equal(t, errStop, l.Run(ctx))
		took := time.Since(start)

		synctest.Wait()
		assert.Zero(t, w.conns, "connections")
		attempts := w.attempts
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		assert.Equal(t, attempts, w.attempts, "attempts after the end")
		assert.Less(t, int64(late.HeapObjects)-int64(early.HeapObjects), int64(rounds), "objects, such as timers, that stay behind")
		t.Logf("%d rounds, %d attempts, %d configurations in %v; objects on the heap %d, then %d", asked, attempts, taken, took, early.HeapObjects, late.HeapObjects)
	})
}

func heap(m *runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(m)
}
