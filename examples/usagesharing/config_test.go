package usagesharing_test

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/examples/usagesharing"
	"github.com/respitehttp/respite/httptestutil"
)

func TestNewReportsEveryFaultAtOnce(t *testing.T) {
	_, err := usagesharing.New(usagesharing.Config{
		URL:                    "ftp://files.example.com/x",
		RequestTimeout:         -1,
		MinEntriesPerMessage:   -2,
		MaxQueueSize:           -3,
		SharePercentage:        1.5,
		RepeatEvidenceInterval: -4,
		ShutdownTimeout:        -5,
		Breaker:                breaker.Config{FailuresWindow: -6, Jitter: 7},
	})
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	assert.Equal(t, []string{
		`usagesharing: URL has the scheme "ftp"; accepted: an http or https URL with a host, or empty for https://devices-v4.51degrees.com/new.ashx`,
		`usagesharing: RequestTimeout is -1ns; accepted: > 0, or 0 for 1m0s`,
		`usagesharing: MinEntriesPerMessage is -2; accepted: 1 to 100000, or 0 for 50`,
		`usagesharing: MaxQueueSize is -3; accepted: >= MinEntriesPerMessage (1), or 0 for the larger of 1000 and 10 times that`,
		`usagesharing: SharePercentage is 1.5; accepted: 0 to 1, where 0 means 1`,
		`usagesharing: RepeatEvidenceInterval is -4ns; accepted: > 0, or 0 for 20m0s`,
		`usagesharing: ShutdownTimeout is -5ns; accepted: > 0, or 0 for 5s`,
	}, lines[:7])
	assert.Len(t, lines, 9)
	assert.ErrorContains(t, err, "FailuresWindow is -6ns")
	assert.ErrorContains(t, err, "Jitter is 7")
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   usagesharing.Config
		fault string
	}{
		"U2 a queue that can never hold a message": {usagesharing.Config{MaxQueueSize: 49}, "MaxQueueSize is 49"},
		"U2 the same with a minimum of its own":    {usagesharing.Config{MinEntriesPerMessage: 200, MaxQueueSize: 199}, "MaxQueueSize is 199; accepted: >= MinEntriesPerMessage (200)"},
		"a minimum whose double overflows":         {usagesharing.Config{MinEntriesPerMessage: math.MaxInt}, "MinEntriesPerMessage is"},
		"no number":                                {usagesharing.Config{SharePercentage: math.NaN()}, "SharePercentage is NaN"},
		"a negative part":                          {usagesharing.Config{SharePercentage: -0.1}, "SharePercentage is -0.1"},
		"a URL without a host":                     {usagesharing.Config{URL: "https:///new.ashx"}, "URL has no host"},
		"a URL that is a port":                     {usagesharing.Config{URL: "http://:80/"}, "URL has no host"},
		"a key in place of a header":               {usagesharing.Config{BlockedHTTPHeaders: []string{"cookie", "Header.Cookie"}}, `BlockedHTTPHeaders[1] is "Header.Cookie"; accepted: the name of a header, such as cookie`},
		"no header":                                {usagesharing.Config{BlockedHTTPHeaders: []string{" cookie "}}, `BlockedHTTPHeaders[0] is " cookie "`},
		"an empty header":                          {usagesharing.Config{BlockedHTTPHeaders: []string{""}}, `BlockedHTTPHeaders[0] is ""`},
		"a path":                                   {usagesharing.Config{URL: "new.ashx"}, "URL is not an absolute URL"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := usagesharing.New(c.cfg)
			require.ErrorContains(t, err, c.fault)
			assert.Nil(t, s)
			assert.NotContains(t, err.Error(), "\n", "one fault")
		})
	}
}

// D59: what is wrong with a URL is said without the URL.
func TestNewHidesTheSecretsOfARefusedURL(t *testing.T) {
	for _, u := range []string{
		"ftp://user:secret@127.0.0.1/p?token=secret#secret",
		"http://user:secret@/p?token=secret",
		"http://user:secret#@host/",
		"http://user:secret@host:port/",
		"http://user:secret@[::1/",
		"http://user:secret%zz@host/",
		"user:secret@host",
		"http://host/secret%zz?secret",
	} {
		_, err := usagesharing.New(usagesharing.Config{URL: u})
		if assert.Error(t, err, u) {
			assert.NotContains(t, err.Error(), "secret", u)
		}
	}
}

// U2, U4, U8: the defaults of the specification; and a constructor starts nothing,
// or the bubble would not end.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var url string
		svc := newService(t, func(req *http.Request) (*http.Response, error) {
			url = req.URL.String()
			return httptestutil.Status(200, "")(req)
		})
		s := newSender(t, usagesharing.Config{Transport: svc})
		assert.Equal(t, 1000, add(s, 0, 1001))

		defer start(t, s)()
		synctest.Wait()
		assert.Equal(t, []int{100, 100, 100, 100, 100, 100, 100, 100, 100, 100}, sizes(svc.received()))
		assert.Equal(t, "https://devices-v4.51degrees.com/new.ashx", url)

		add(s, 2000, 49)
		synctest.Wait()
		assert.Len(t, svc.received(), 10, "49 are too few")
		add(s, 3000, 1)
		synctest.Wait()
		assert.Equal(t, 50, sizes(svc.received())[10])
	})
}

func TestDefaultMaxQueueSizeFollowsTheMinimum(t *testing.T) {
	for minimum, size := range map[int]int{1: 1000, 100: 1000, 101: 1010, 200: 2000} {
		s := newSender(t, usagesharing.Config{MinEntriesPerMessage: minimum})
		assert.Equal(t, size, add(s, 0, size+5), "U2: with a minimum of %d", minimum)
	}
	s := newSender(t, usagesharing.Config{MaxQueueSize: 50})
	assert.Equal(t, 50, add(s, 0, 60), "U2: as large as a message")
}

// The caller's slices are its own after New.
func TestNewCopiesTheLists(t *testing.T) {
	blocked, included := []string{"a"}, []string{"q"}
	svc := newService(t, httptestutil.Status(200, ""))
	s := newSender(t, usagesharing.Config{Transport: svc, BlockedHTTPHeaders: blocked, IncludedQueryStringParameters: included})
	blocked[0], included[0] = "x", "x"
	s.Add(usagesharing.Evidence{"header.a": "1", "header.b": "1", "query.q": "1", "query.x": "1"})
	drain(t, s)
	assert.Equal(t, []string{"header.b", "query.q"}, svc.received()[0].devices[0].evidence())
}

// A logger that is not given is the default one at the time of each record.
func TestDefaultLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := usagesharing.New(usagesharing.Config{Transport: newService(t, httptestutil.Status(500, "out of order")), MinEntriesPerMessage: 1})
		require.NoError(t, err)
		logged := setDefaultLogger(t)
		defer start(t, s)()
		s.Add(visitor(1))
		time.Sleep(time.Millisecond)
		assert.Len(t, logged.with("out of order"), 1)
	})
}
