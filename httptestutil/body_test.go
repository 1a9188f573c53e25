package httptestutil_test

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/httptestutil"
)

func TestH4BodyClosedOnce(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
			body := httptestutil.Body(r, "content")
			got, err := io.ReadAll(body)
			assert.NoError(t, err)
			assert.Equal(t, "content", string(got))
			assert.NoError(t, body.Close())
		})
		assert.False(t, r.Failed(), r.Text())
	})
}

func TestH4BodyClosedTwiceFailsAtOnce(t *testing.T) {
	r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
		body := httptestutil.Body(r, "content")
		assert.NoError(t, body.Close())
		assert.False(t, r.Failed())
		assert.EqualError(t, body.Close(), "httptestutil: body closed more than once")
		assert.True(t, r.Failed())
	})
	assert.Equal(t, "httptestutil: Body: closed 2 times", r.Text())
}

func TestH4BodyNeverClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
			body := httptestutil.Body(r, "content")
			io.Copy(io.Discard, body)
			assert.False(t, r.Failed())
		})
		assert.True(t, r.Failed())
		assert.Equal(t, "httptestutil: Body: never closed", r.Text())
	})
}

// A transport may close the request's body after RoundTrip has returned, so the
// end of the test waits for that, but not for ever.
func TestH4BodyClosedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
			body := httptestutil.Body(r, "content")
			time.AfterFunc(4*time.Second, func() { body.Close() })
		})
		assert.False(t, r.Failed(), r.Text())
		assert.Equal(t, 4*time.Second, time.Since(start))
	})
}

// tb must not be used after the test: testing panics then.
func TestH4BodyIsSilentAfterTheTest(t *testing.T) {
	var body io.ReadCloser
	r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
		body = httptestutil.Body(r, "content")
		body.Close()
	})
	assert.Error(t, body.Close())
	assert.False(t, r.Failed())
}

func TestH4ReadAfterClose(t *testing.T) {
	body := httptestutil.Body(t, "content")
	body.Close()
	n, err := body.Read(make([]byte, 10))
	assert.Zero(t, n)
	assert.ErrorIs(t, err, http.ErrBodyReadAfterClose)
}

func TestH4BodyClosedFromManyGoroutines(t *testing.T) {
	r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
		body := httptestutil.Body(r, "content")
		var closers sync.WaitGroup
		for range 8 {
			closers.Go(func() {
				body.Read(make([]byte, 1))
				body.Close()
			})
		}
		closers.Wait()
	})
	assert.True(t, r.Failed())
	assert.Contains(t, r.Text(), "closed 8 times")
}

// The body serves as that of a real request and of a response.
func TestH4BodyThroughNetHTTP(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		s := httptestutil.NewServer(t, echo)
		resp, err := s.Client().Post(s.URL, "text/plain", httptestutil.Body(t, "content"))
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		assert.Equal(t, "content", string(got))
		resp.Body.Close()

		client := &http.Client{Transport: httptestutil.Script(t, func(req *http.Request) (*http.Response, error) {
			resp, err := httptestutil.Status(200, "")(req)
			resp.Body = httptestutil.Body(t, "content")
			return resp, err
		})}
		resp, err = client.Do(newRequest(t, "GET", nil))
		require.NoError(t, err)
		resp.Body.Close()
	})
}
