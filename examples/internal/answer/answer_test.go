package answer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/examples/internal/answer"
	"github.com/respitehttp/respite/httptestutil"
)

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return req
}

func serve(t *testing.T, handler http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// L7, S6, U7: a redirect is an answer, wherever it leads; D59: also where the place is
// no URL, which net/http would quote.
func TestRedirects(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"", "/elsewhere", "http://localhost:1/", "http://%zz/?token=abc123", "http://h:port abc123"} {
			var requests atomic.Int32
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				if location != "" {
					w.Header().Set("Location", location)
				}
				w.WriteHeader(status)
			})
			resp, err := answer.To(http.DefaultClient, get(t, url))
			require.NoError(t, err, "%d to %q", status, location)
			resp.Body.Close()
			assert.Equal(t, status, resp.StatusCode)
			assert.EqualValues(t, 1, requests.Load())
		}
	}
}

// A response that several requests share, as a mock may give it, is not modified.
func TestSharedResponse(t *testing.T) {
	shared := &http.Response{StatusCode: 301, Header: http.Header{"Location": {"/x"}}, Body: http.NoBody}
	client := &http.Client{Transport: httptestutil.Script(t, func(*http.Request) (*http.Response, error) { return shared, nil })}
	resp, err := answer.To(client, get(t, "http://h/"))
	require.NoError(t, err)
	assert.Empty(t, resp.Header)
	assert.Equal(t, "/x", shared.Header.Get("Location"))
}

// D59: an error is itself, but for what its text may give away.
func TestErrors(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	listener.Close()
	_, err = answer.To(http.DefaultClient, get(t, "http://user:secret@"+address+"/p?token=abc123"))
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.EqualError(t, err, "dial tcp "+address+": connect: connection refused")
	assert.NotErrorAs(t, err, new(*url.Error))

	for _, fault := range []error{
		errors.New("no way to http://user:secret@h/p?token=abc123 from here"),
		errors.New("no way to /p?token=abc123 from here"),
		fmt.Errorf("Get %q: %w", "http://h/?token=abc123", io.EOF),
		errors.Join(io.EOF, errors.New("abc123")),
	} {
		_, err := answer.To(&http.Client{Transport: httptestutil.Script(t, httptestutil.Fail(fault))}, get(t, "http://h/p?token=abc123"))
		assert.ErrorIs(t, err, fault)
		assert.Contains(t, err.Error(), "[redacted]")
		assert.NotContains(t, err.Error(), "secret")
		assert.NotContains(t, err.Error(), "abc123")
	}

	status, excerpt, err := answer.Brief(&http.Client{Transport: httptestutil.Script(t, httptestutil.Fail(io.EOF))}, get(t, "http://h/"))
	assert.Equal(t, io.EOF, err)
	assert.Zero(t, status)
	assert.Empty(t, excerpt)
}

// The client is otherwise as it was: it sends the user info and cookies.
func TestClientIsKept(t *testing.T) {
	var n atomic.Int32
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		assert.Equal(t, "user secret", user+" "+password)
		if n.Add(1) == 1 {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		} else {
			assert.Equal(t, "a=b", r.Header.Get("Cookie"))
		}
	})
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := &http.Client{Jar: jar}
	for range 2 {
		status, _, err := answer.Brief(client, get(t, strings.Replace(address, "//", "//user:secret@", 1)))
		require.NoError(t, err)
		assert.Equal(t, 200, status)
	}
	assert.Nil(t, client.Transport)
}

// D24: the connection is used again after an answer of up to 64 KiB, also if its end
// comes later than its last byte.
func TestConnectionIsUsedAgain(t *testing.T) {
	for _, size := range []int{0, 10 << 10, 64<<10 - 1, 64 << 10} {
		synctest.Test(t, func(t *testing.T) {
			server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusServiceUnavailable)
				io.WriteString(w, strings.Repeat("x", size))
				http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Millisecond)
			}))
			for i := range 3 {
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					GotConn: func(c httptrace.GotConnInfo) { assert.Equal(t, i > 0, c.Reused, "%d bytes", size) },
				})
				status, excerpt, err := answer.Brief(server.Client(), get(t, server.URL).WithContext(ctx))
				require.NoError(t, err)
				assert.Equal(t, 503, status)
				assert.Len(t, excerpt, min(size, 500))
				synctest.Wait()
			}
		})
	}
}

// D61: an answer that does not end is not waited for: not longer than 1 s, nor than
// half of the time that is left.
func TestAnswerThatDoesNotEnd(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		0:                time.Second,
		10 * time.Second: time.Second,
		time.Second:      500 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			client := &http.Client{Transport: httptestutil.Script(t, httptestutil.Stall(503, "some words"))}
			began := time.Now()
			status, excerpt, err := answer.Brief(client, get(t, "http://h/").WithContext(ctx))
			assert.NoError(t, err)
			assert.Equal(t, want, time.Since(began))
			assert.Equal(t, 503, status)
			assert.Equal(t, "some words", excerpt)
		})
	}
}

// The body is closed once, also when its end is not waited for.
func TestBodyIsClosedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: httptestutil.Script(t, func(req *http.Request) (*http.Response, error) {
			resp, err := httptestutil.Status(503, "")(req)
			resp.Body = struct {
				io.Reader
				io.Closer
			}{stalled{req.Context()}, httptestutil.Body(t, "")}
			return resp, err
		})}
		_, _, err := answer.Brief(client, get(t, "http://h/"))
		assert.NoError(t, err)
	})
}

// stalled is a reader that has nothing to give until its context ends.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) {
	<-s.ctx.Done()
	time.Sleep(time.Millisecond) // what else is due at the end comes first
	return 0, s.ctx.Err()
}

// D61: nor is a connection that the server has switched to another protocol.
func TestSwitchedProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello")
			io.Copy(io.Discard, conn) // until the client closes it
		}))
		began := time.Now()
		status, excerpt, err := answer.Brief(server.Client(), get(t, server.URL))
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(began))
		assert.Equal(t, 101, status)
		assert.Equal(t, "hello", excerpt)
	})
}

// A base that returns nothing is an error of the client, not a panic.
func TestBaseThatReturnsNothing(t *testing.T) {
	client := &http.Client{Transport: httptestutil.Script(t, func(*http.Request) (*http.Response, error) { return nil, nil })}
	_, err := answer.To(client, get(t, "http://h/"))
	assert.Error(t, err)
}

// The client's own limit stays.
func TestTimeoutOfTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := answer.To(&http.Client{Timeout: time.Minute, Transport: httptestutil.Script(t, httptestutil.Hang())}, get(t, "http://h/"))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

// D61: of an answer without end, 64 KiB are read, and a byte that would be the end.
func TestEndlessAnswer(t *testing.T) {
	var body endless
	client := &http.Client{Transport: httptestutil.Script(t, func(req *http.Request) (*http.Response, error) {
		resp, err := httptestutil.Status(503, "")(req)
		resp.Body = &body
		return resp, err
	})}
	status, excerpt, err := answer.Brief(client, get(t, "http://h/"))
	require.NoError(t, err)
	assert.Equal(t, 503, status)
	assert.Equal(t, strings.Repeat("x", 500), excerpt)
	assert.Equal(t, 64<<10+1, body.read)
	assert.True(t, body.closed)
}

type endless struct {
	read   int
	closed bool
}

func (e *endless) Close() error { e.closed = true; return nil }
func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	e.read += len(b)
	return len(b), nil
}

// An answer that breaks off has a status, and a beginning.
func TestAnswerThatBreaksOff(t *testing.T) {
	client := &http.Client{Transport: httptestutil.Script(t, httptestutil.Truncate(404, "half"))}
	status, excerpt, err := answer.Brief(client, get(t, "http://h/"))
	require.NoError(t, err)
	assert.Equal(t, 404, status)
	assert.Equal(t, "half", excerpt)
}
