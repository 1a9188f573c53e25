package httptestutil

import (
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A Server is an HTTP/1.1 server whose connections are in memory: the server and
// the client side are those of net/http, and between them is a [net.Pipe]. It is
// made by [NewServer] and is safe for concurrent use.
//
// It behaves as over TCP with three differences. A pipe has no buffer: a write to
// it ends when the other side has read it, so neither side runs ahead by more
// than the few KiB that net/http keeps itself. A broken connection shows as io.EOF
// or io.ErrClosedPipe, never as a reset. The address of either side is "pipe".
//
// In a bubble of testing/synctest, call NewServer inside the bubble. As always,
// each response body must be read to its end or closed: one left open keeps the
// goroutines of its connection, which the bubble reports as a deadlock.
type Server struct {
	// URL is the base URL, of the form http://host without a slash at the end.
	URL string

	// Transport reaches the server. Whatever the host and port of a request are,
	// its connection leads here and never out of the process, so code under test
	// may use the URLs that it uses in production, if they begin with "http:".
	// Its settings may be changed before its first use.
	Transport *http.Transport

	http     http.Server
	listener *listener
	end      context.CancelFunc // ends the context of every request
	busy     sync.WaitGroup     // Serve, connections and handlers

	mu     sync.Mutex // guards the rest
	closed bool
	conns  map[net.Conn]struct{} // the server's side of each open connection
}

// NewServer starts a server that answers with h, and has tb close it (as
// [Server.Close] does) when the test ends. A nil h is http.DefaultServeMux. What
// net/http has to say about the server, such as a panic of h, goes to tb.Log.
func NewServer(tb testing.TB, h http.Handler) *Server {
	if h == nil {
		h = http.DefaultServeMux
	}
	ctx, cancel := context.WithCancel(context.Background())
	errorLog := &testLog{tb: tb}

	s := &Server{
		URL:      "http://" + serverName,
		listener: &listener{incoming: make(chan net.Conn), done: make(chan struct{})},
		end:      cancel,
		conns:    make(map[net.Conn]struct{}),
	}
	s.Transport = &http.Transport{DialContext: s.dial}
	s.http = http.Server{
		Handler:     s.counted(h),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState:   s.connState,
		ErrorLog:    log.New(errorLog, "", 0),
	}
	s.busy.Go(func() { _ = s.http.Serve(s.listener) }) // always http.ErrServerClosed

	tb.Cleanup(func() {
		s.Close()
		errorLog.stop()
	})
	return s
}

// Client returns a new client whose Transport is s.Transport. To test a wrapper,
// put it around s.Transport instead.
func (s *Server) Client() *http.Client {
	return &http.Client{Transport: s.Transport}
}

// Close ends the server as a crash would: it breaks every connection, ends the
// context of every request that is being answered, and then waits for the
// handlers to return. From then on a dial fails with a *net.OpError that matches
// syscall.ECONNREFUSED. Closing twice is harmless. A handler must not call it.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()

	s.end()
	s.http.Close()
	s.busy.Wait()
}

// dial gives the server one end of a new connection and returns the other.
func (s *Server) dial(_ context.Context, network, addr string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
		return nil, &net.OpError{Op: "dial", Net: network, Addr: address(addr), Err: refused}
	}
	client, server := net.Pipe()
	s.conns[server] = struct{}{}
	s.listener.incoming <- server // Serve takes it at once, for closed is still false
	return client, nil
}

// connState counts connections as busy. One that a handler has taken over
// (hijacked) is not waited for, but Close closes it.
func (s *Server) connState(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.busy.Add(1)
	case http.StateHijacked:
		s.busy.Done()
	case http.StateClosed:
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
		s.busy.Done()
	}
}

// counted counts handlers as busy, also when their connection was hijacked.
func (s *Server) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.busy.Add(1)
		defer s.busy.Done()
		h.ServeHTTP(w, r)
	})
}

// serverName is the host of Server.URL, under a domain that is kept for tests.
const serverName = "server.test"

// A listener hands the connections that Server.dial makes to http.Server.Serve.
type listener struct {
	incoming chan net.Conn
	done     chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.incoming:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close is called once: http.Server sees to that.
func (l *listener) Close() error {
	close(l.done)
	return nil
}

func (l *listener) Addr() net.Addr { return address(serverName + ":80") }

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// A testLog passes lines on to tb until the test ends: tb.Log panics after that.
type testLog struct {
	mu sync.Mutex
	tb testing.TB // nil once stopped
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tb != nil {
		l.tb.Log(strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}

func (l *testLog) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tb = nil
}
