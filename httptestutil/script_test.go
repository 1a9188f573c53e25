package httptestutil_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/httptestutil"
)

var errBoom = errors.New("boom")

func newRequest(t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://user:password@example.test/path", body)
	require.NoError(t, err)
	return req
}

func TestH2ScriptAnswersInOrder(t *testing.T) {
	client := &http.Client{Transport: httptestutil.Script(t,
		httptestutil.Status(200, "one"),
		httptestutil.Fail(errBoom),
		httptestutil.Status(503, "three"),
	)}
	resp, err := client.Do(newRequest(t, "GET", nil))
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	resp.Body.Close()
	_, err = client.Do(newRequest(t, "GET", nil))
	assert.ErrorIs(t, err, errBoom)
	resp, err = client.Do(newRequest(t, "GET", nil))
	require.NoError(t, err)
	assert.Equal(t, 503, resp.StatusCode)
	resp.Body.Close()
}

func TestH2ScriptFailsOnACallTooMany(t *testing.T) {
	r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
		rt := httptestutil.Script(r, httptestutil.Status(200, ""))
		_, err := rt.RoundTrip(newRequest(t, "GET", nil))
		assert.NoError(t, err)
		assert.False(t, r.Failed())

		done := make(chan struct{})
		go func() { // where FailNow would be wrong
			defer close(done)
			resp, err := rt.RoundTrip(newRequest(t, "POST", httptestutil.Body(t, "closed all the same")))
			assert.Nil(t, resp)
			assert.EqualError(t, err, "httptestutil: no step is left in the script")
		}()
		<-done
	})
	assert.True(t, r.Failed())
	assert.Equal(t, "httptestutil: Script: call 2 (POST http://user:xxxxx@example.test/path) of a script with 1 steps", r.Text())
}

func TestH2ScriptMayHaveStepsLeft(t *testing.T) {
	r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
		httptestutil.Script(r, httptestutil.Status(200, ""))
	})
	assert.False(t, r.Failed())
}

func TestH2ScriptFailsOnANilStep(t *testing.T) {
	steps := []httptestutil.Step{httptestutil.Status(200, ""), nil}
	r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
		rt := httptestutil.Script(r, steps...)
		_, err := rt.RoundTrip(newRequest(t, "GET", nil))
		assert.NoError(t, err)
		_, err = rt.RoundTrip(newRequest(t, "GET", nil))
		assert.EqualError(t, err, "httptestutil: nil step")
	})
	assert.True(t, r.Failed())
	assert.Equal(t, "httptestutil: Script: step 2 is nil", r.Text())
	assert.Nil(t, steps[1], "the caller's slice was changed")
}

func TestH2ScriptClosesTheRequestBody(t *testing.T) {
	panics := func(*http.Request) (*http.Response, error) { panic(errBoom) }
	reads := func(req *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(req.Body)
		assert.NoError(t, err, "the body is closed before the step has returned")
		assert.Equal(t, "payload", string(body))
		return httptestutil.Status(200, "")(req)
	}
	rt := httptestutil.Script(t, httptestutil.Status(200, "ok"), httptestutil.Fail(errBoom), reads, panics)
	for range 3 {
		rt.RoundTrip(newRequest(t, "POST", httptestutil.Body(t, "payload")))
	}
	assert.PanicsWithValue(t, errBoom, func() {
		rt.RoundTrip(newRequest(t, "POST", httptestutil.Body(t, "payload")))
	})
}

func TestH2ScriptGivesEachStepOnce(t *testing.T) {
	const calls = 100
	var steps []httptestutil.Step
	for n := range calls {
		steps = append(steps, httptestutil.Status(200, strconv.Itoa(n)))
	}
	rt := httptestutil.Script(t, steps...)
	var answers sync.Map
	var callers sync.WaitGroup
	for range calls {
		callers.Go(func() {
			resp, err := rt.RoundTrip(newRequest(t, "GET", nil))
			if assert.NoError(t, err) {
				body, _ := io.ReadAll(resp.Body)
				_, twice := answers.LoadOrStore(string(body), true)
				assert.False(t, twice)
			}
		})
	}
	callers.Wait()
}

// H2: the responses are complete on their own, as net/http would have made them:
// written and read again they are the same.
func TestH2ResponsesAreComplete(t *testing.T) {
	for _, answer := range []struct {
		method string
		code   int
		body   string
		length int64
		noBody bool
	}{
		{"GET", 200, "content", 7, false},
		{"POST", 503, "busy", 4, false},
		{"GET", 200, "", 0, true},
		{"HEAD", 200, "content", 7, true},
		{"GET", 204, "ignored", 0, true},
		{"GET", 304, "ignored", 0, true},
		{"GET", 101, "ignored", 0, true},
		{"GET", 599, "unknown", 7, false},
	} {
		req := newRequest(t, answer.method, nil)
		resp, err := httptestutil.Status(answer.code, answer.body)(req)
		require.NoError(t, err)
		assert.Equal(t, strconv.Itoa(answer.code)+" "+http.StatusText(answer.code), resp.Status)
		assert.Equal(t, answer.code, resp.StatusCode)
		assert.Equal(t, "HTTP/1.1", resp.Proto)
		assert.True(t, resp.ProtoAtLeast(1, 1))
		assert.NotNil(t, resp.Header)
		assert.Equal(t, answer.length, resp.ContentLength)
		assert.Same(t, req, resp.Request)
		assert.Equal(t, answer.noBody, resp.Body == http.NoBody)

		var wire bytes.Buffer
		require.NoError(t, resp.Write(&wire))
		again, err := http.ReadResponse(bufio.NewReader(&wire), req)
		require.NoError(t, err)
		assert.Equal(t, resp.StatusCode, again.StatusCode)
		assert.Equal(t, resp.ContentLength, again.ContentLength)
		body, err := io.ReadAll(again.Body)
		assert.NoError(t, err)
		if answer.noBody {
			answer.body = ""
		}
		assert.Equal(t, answer.body, string(body))
	}
}

func TestH2NoBodyWhereTheWireHasNone(t *testing.T) {
	for _, step := range []httptestutil.Step{httptestutil.Stall(200, "x"), httptestutil.Truncate(200, "x")} {
		resp, err := step(newRequest(t, "HEAD", nil))
		require.NoError(t, err)
		assert.Equal(t, http.NoBody, resp.Body)
		assert.EqualValues(t, -1, resp.ContentLength)
	}
	resp, err := httptestutil.Stall(204, "x")(newRequest(t, "GET", nil))
	require.NoError(t, err)
	assert.Equal(t, http.NoBody, resp.Body)
	assert.EqualValues(t, 0, resp.ContentLength)
}

func TestH2StatusBodyIsClosedForGood(t *testing.T) {
	resp, err := httptestutil.Status(200, "content")(newRequest(t, "GET", nil))
	require.NoError(t, err)
	assert.NoError(t, resp.Body.Close())
	assert.NoError(t, resp.Body.Close())
	_, err = resp.Body.Read(make([]byte, 1))
	assert.ErrorIs(t, err, http.ErrBodyReadAfterClose)
}

func TestH2StepsAreResponders(t *testing.T) {
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder("GET", "http://example.test/status", httptestutil.Status(200, "ok"))
	mock.RegisterResponder("GET", "http://example.test/fail", httptestutil.Fail(errBoom))
	mock.RegisterResponder("GET", "http://example.test/truncate", httptestutil.Truncate(200, "part"))
	client := &http.Client{Transport: mock}

	for range 2 { // a step holds no state
		resp, err := client.Get("http://example.test/status")
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		assert.Equal(t, "ok", string(body))

		_, err = client.Get("http://example.test/fail")
		assert.ErrorIs(t, err, errBoom)

		resp, err = client.Get("http://example.test/truncate")
		require.NoError(t, err)
		body, err = io.ReadAll(resp.Body)
		assert.Equal(t, io.ErrUnexpectedEOF, err)
		assert.Equal(t, "part", string(body))
	}
}

func TestH2FailReturnsItsError(t *testing.T) {
	resp, err := httptestutil.Script(t, httptestutil.Fail(errBoom)).RoundTrip(newRequest(t, "GET", nil))
	assert.Nil(t, resp)
	assert.Equal(t, errBoom, err)
}

func TestH2HangEndsWithTheContext(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		rt := httptestutil.Script(t, func(req *http.Request) (*http.Response, error) {
			cancel(errBoom)
			return httptestutil.Hang()(req)
		})
		resp, err := rt.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
		assert.Nil(t, resp)
		assert.Equal(t, errBoom, err)
	})
}

func TestH2HangAndTheClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: httptestutil.Script(t, httptestutil.Hang()), Timeout: time.Minute}
		start := time.Now()
		_, err := client.Do(newRequest(t, "GET", nil))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

// H2: the legacy Cancel channel ends Hang and Stall too.
func TestH2CancelChannelEndsTheWait(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		cancel := make(chan struct{})
		req := newRequest(t, "GET", nil)
		//lint:ignore SA1019 the step honours it
		req.Cancel = cancel
		close(cancel)
		_, err := httptestutil.Hang()(req)
		assert.EqualError(t, err, "httptestutil: request cancelled")
		resp, err := httptestutil.Stall(200, "part")(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		assert.Equal(t, "part", string(body))
		assert.EqualError(t, err, "httptestutil: request cancelled")
	})
}

func TestH2StallEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errBoom)
		defer cancel()
		start := time.Now()
		resp, err := httptestutil.Stall(200, "part")(newRequest(t, "GET", nil).WithContext(ctx))
		require.NoError(t, err)
		assert.EqualValues(t, -1, resp.ContentLength)
		body, err := io.ReadAll(resp.Body)
		assert.Equal(t, "part", string(body))
		assert.Equal(t, errBoom, err)
		assert.Equal(t, time.Minute, time.Since(start))
		_, err = resp.Body.Read(make([]byte, 1))
		assert.Equal(t, errBoom, err)
	})
}

func TestH2StallEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp, err := httptestutil.Stall(200, "")(newRequest(t, "GET", nil))
		require.NoError(t, err)
		read := make(chan error)
		go func() {
			_, err := resp.Body.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait() // until Read waits
		assert.NoError(t, resp.Body.Close())
		assert.ErrorIs(t, <-read, http.ErrBodyReadAfterClose)
	})
}

func TestH2TruncateBreaksOff(t *testing.T) {
	resp, err := httptestutil.Truncate(200, "part")(newRequest(t, "GET", nil))
	require.NoError(t, err)
	assert.EqualValues(t, -1, resp.ContentLength)
	body := bufio.NewReaderSize(resp.Body, 16)
	got, err := io.ReadAll(body)
	assert.Equal(t, "part", string(got))
	assert.Equal(t, io.ErrUnexpectedEOF, err)
	_, err = resp.Body.Read(make([]byte, 1))
	assert.Equal(t, io.ErrUnexpectedEOF, err)
}

// A client that wants one byte at a time gets one at a time.
func TestH2SmallReads(t *testing.T) {
	resp, err := httptestutil.Status(200, "content")(newRequest(t, "GET", nil))
	require.NoError(t, err)
	var got strings.Builder
	p := make([]byte, 1)
	for {
		n, err := resp.Body.Read(p)
		got.Write(p[:n])
		if err != nil {
			assert.Equal(t, io.EOF, err)
			break
		}
	}
	assert.Equal(t, "content", got.String())
}
