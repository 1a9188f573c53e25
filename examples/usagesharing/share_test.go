package usagesharing_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/examples/usagesharing"
	"github.com/respitehttp/respite/httptestutil"
)

// U10
func TestWhatIsShared(t *testing.T) {
	all := usagesharing.Evidence{
		"header.user-agent": "1", "Header.Accept": "1", "header.Cookie": "1", "header.x-internal": "1", "header.": "1",
		"cookie.51D_profile": "1", "cookie.51d_x": "1", "cookie.login": "1", "cookie.51D": "1", "COOKIE.login2": "1", "cookie.campaign": "1", "query.51Dx": "1",
		"query.51D_a": "1", "query.51d_b": "1", "query.token": "1", "query.Campaign": "1", "query.x51D_": "1",
		"server.host": "1", "location.latitude": "1", "unnamed": "1",
	}
	always := []string{"cookie.51D_profile", "cookie.51d_x", "evidence.location.latitude", "evidence.unnamed", "header.",
		"header.Accept", "header.user-agent", "query.51D_a", "query.51d_b", "server.host"}
	for name, c := range map[string]struct {
		cfg  usagesharing.Config
		more []string
		less string
	}{
		"by default":               {usagesharing.Config{}, []string{"header.x-internal"}, ""},
		"another block list":       {usagesharing.Config{BlockedHTTPHeaders: []string{"X-Internal", "accept"}}, []string{"header.Cookie"}, "header.Accept"},
		"an empty block list":      {usagesharing.Config{BlockedHTTPHeaders: []string{}}, []string{"header.Cookie", "header.x-internal"}, ""},
		"an allow list":            {usagesharing.Config{IncludedQueryStringParameters: []string{"campaign"}}, []string{"header.x-internal", "query.Campaign"}, ""},
		"all of the query":         {usagesharing.Config{ShareAllQueryStringParameters: true}, []string{"header.x-internal", "query.Campaign", "query.token", "query.x51D_", "query.51Dx"}, ""},
		"everything, despite list": {usagesharing.Config{ShareAllEvidence: true, BlockedHTTPHeaders: []string{"accept"}}, []string{"header.Cookie", "header.x-internal", "cookie.login", "cookie.51D", "cookie.login2", "cookie.campaign", "query.Campaign", "query.token", "query.x51D_", "query.51Dx"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			svc := newService(t, httptestutil.Status(200, ""))
			c.cfg.Transport = svc
			s := newSender(t, c.cfg)
			assert.True(t, s.Add(all))
			drain(t, s)
			want := append([]string{}, c.more...)
			for _, key := range always {
				if key != c.less {
					want = append(want, key)
				}
			}
			assert.ElementsMatch(t, want, svc.received()[0].devices[0].evidence())
		})
	}
}

// U10: an entry needs something that is shared.
func TestEvidenceOfWhichNothingIsShared(t *testing.T) {
	s := newSender(t, usagesharing.Config{})
	for _, e := range []usagesharing.Evidence{
		nil,
		{},
		{"header.cookie": "a=b"},
		{"cookie.login": "1", "query.q": "1"},
		{"query.session-id": "1", "query.sequence": "2"},
	} {
		assert.False(t, s.Add(e), "%v", e)
	}
	assert.False(t, newSender(t, usagesharing.Config{ShareAllEvidence: true}).Add(usagesharing.Evidence{"query.session-id": "1"}))
	assert.True(t, s.Add(usagesharing.Evidence{"server.client-ip": "192.0.2.1"}))
	assert.Equal(t, usagesharing.Stats{NotShared: 5, Accepted: 1, Queued: 1}, s.Stats())
}

// U10: the bounds are more than seven standard deviations away.
func TestSharePercentage(t *testing.T) {
	const n = 4000
	for part, want := range map[float64][2]int{1: {n, n}, 0.25: {800, 1200}, 1e-9: {0, 1}} {
		s := newSender(t, usagesharing.Config{SharePercentage: part, MaxQueueSize: n})
		queued := add(s, 0, n)
		assert.GreaterOrEqual(t, queued, want[0], "of a part of %v", part)
		assert.LessOrEqual(t, queued, want[1], "of a part of %v", part)
		assert.Equal(t, uint64(n-queued), s.Stats().NotShared)
	}
}

// U10, U11: what chance left out was not shared, and is not tracked.
func TestSharePercentageComesBeforeTracking(t *testing.T) {
	s := newSender(t, usagesharing.Config{SharePercentage: 0.5})
	tries := 1
	for ; !s.Add(visitor(1)); tries++ {
		require.Less(t, tries, 100)
	}
	for range 100 {
		assert.False(t, s.Add(visitor(1)))
	}
}

// U11
func TestSessionTrackingAtTheInterval(t *testing.T) {
	for name, c := range map[string]struct {
		interval, set time.Duration
	}{
		"the default":   {20 * time.Minute, 0},
		"one of my own": {time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSender(t, usagesharing.Config{RepeatEvidenceInterval: c.set})
				assert.True(t, s.Add(visitor(1)))
				assert.False(t, s.Add(visitor(1)), "at once")

				time.Sleep(c.interval - time.Nanosecond)
				assert.False(t, s.Add(visitor(1)), "one nanosecond before the interval is over")
				time.Sleep(time.Nanosecond)
				assert.True(t, s.Add(visitor(1)), "at the interval: a repetition did not start it anew")

				time.Sleep(c.interval + time.Nanosecond)
				assert.True(t, s.Add(visitor(1)), "one nanosecond after it")
				time.Sleep(c.interval - time.Nanosecond)
				assert.False(t, s.Add(visitor(1)), "sharing it again did start it anew")
				assert.Equal(t, usagesharing.Stats{Accepted: 3, Queued: 3, NotShared: 3}, s.Stats())
			})
		})
	}
}

// U11
func TestWhatMakesEvidenceTheSame(t *testing.T) {
	base := func(change ...string) usagesharing.Evidence {
		e := usagesharing.Evidence{"header.a": "1", "header.b": "2", "query.session-id": "s", "query.sequence": "1", "server.client-ip": "192.0.2.1", "header.cookie": "c"}
		for i := 0; i < len(change); i += 2 {
			e[change[i]] = change[i+1]
		}
		return e
	}
	long := strings.Repeat("x", 600)
	for _, c := range []struct {
		name string
		e, f usagesharing.Evidence
		same bool
	}{
		{"equal", base(), base(), true},
		{"another session", base(), base("query.session-id", "t"), true},
		{"no session", base("Query.Session-ID", "t"), base(), true},
		{"another sequence", base(), base("query.sequence", "2"), true},
		{"another value of what is not shared", base(), base("header.cookie", "d"), true},
		{"another value", base(), base("header.b", "3"), false},
		{"another client", base(), base("server.client-ip", "192.0.2.2"), false},
		{"another case of an origin", base("header.x", "1"), base("Header.x", "1"), true},
		{"another case of the client's key", usagesharing.Evidence{"server.client-ip": "x"}, usagesharing.Evidence{"Server.Client-IP": "x"}, true},
		{"another address that is not sent", usagesharing.Evidence{"server.client-ip": "b", "Server.Client-IP": "a"}, usagesharing.Evidence{"server.client-ip": "c", "Server.Client-IP": "a"}, true},
		{"another case of a name", base("header.x", "1"), base("header.X", "1"), false},
		{"another origin", usagesharing.Evidence{"header.a": "1"}, usagesharing.Evidence{"server.a": "1"}, false},
		{"one more", base(), base("header.c", ""), false},
		{"values exchanged", base(), base("header.a", "2", "header.b", "1"), false},
		{"name and value exchanged", usagesharing.Evidence{"a": "b"}, usagesharing.Evidence{"b": "a"}, false},
		{"a border moved", usagesharing.Evidence{"ab": "c"}, usagesharing.Evidence{"a": "bc"}, false},
		{"a value twice", usagesharing.Evidence{"a": "x", "b": "x"}, usagesharing.Evidence{"a": "y", "b": "y"}, false},
		{"another end of a value that is cut", usagesharing.Evidence{"a": long + "1"}, usagesharing.Evidence{"a": long + "2"}, false},
	} {
		s := newSender(t, usagesharing.Config{})
		assert.True(t, s.Add(c.e), c.name)
		assert.Equal(t, c.same, !s.Add(c.f), c.name)
	}
}

// U11: the tracker remembers 1000, and forgets what was not seen for the longest.
func TestSessionTrackingIsBounded(t *testing.T) {
	s := newSender(t, usagesharing.Config{MaxQueueSize: 10_000})
	assert.Equal(t, 1000, add(s, 0, 1000))
	assert.Zero(t, add(s, 999, 1), "the last is known")
	assert.Zero(t, add(s, 0, 1), "the first is known, and now seen again")
	assert.Equal(t, 1, add(s, 1000, 1), "a new one: the second is forgotten")
	assert.Zero(t, add(s, 0, 1))
	assert.Zero(t, add(s, 2, 1), "the third is still known")
	assert.Equal(t, 1, add(s, 1, 1), "the second is not")
}

// U11: evidence that the queue dropped was not shared, so it is not tracked.
func TestDroppedEvidenceIsNotTracked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(t, httptestutil.Status(200, ""))
		s := newSender(t, usagesharing.Config{Transport: svc, MinEntriesPerMessage: 5, MaxQueueSize: 5})
		assert.Equal(t, 5, add(s, 0, 5))
		assert.Zero(t, add(s, 5, 1), "full")

		defer start(t, s)()
		synctest.Wait()
		assert.Equal(t, 1, add(s, 5, 1), "there is room now")
		assert.Zero(t, add(s, 5, 1))
	})
}

// U11: of equal evidence from many goroutines at once, exactly one is shared.
func TestSessionTrackingFromManyGoroutines(t *testing.T) {
	const goroutines, rounds = 16, 500
	s := newSender(t, usagesharing.Config{MaxQueueSize: rounds})
	var shared [rounds]atomic.Int32
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range rounds {
				e := visitor(i)
				e["query.session-id"] = fmt.Sprint(g)
				if s.Add(e) {
					shared[i].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for i := range shared {
		require.EqualValues(t, 1, shared[i].Load(), "visitor %d", i)
	}
	assert.Equal(t, usagesharing.Stats{Accepted: rounds, Queued: rounds, NotShared: (goroutines - 1) * rounds}, s.Stats())
}

// Add keeps nothing of the evidence.
func TestAddCopies(t *testing.T) {
	svc := newService(t, httptestutil.Status(200, ""))
	s := newSender(t, usagesharing.Config{Transport: svc})
	e := visitor(1)
	s.Add(e)
	e["header.user-agent"] = "changed"
	e["header.more"] = "changed"
	drain(t, s)
	assert.Equal(t, []string{agent(1)}, agents(svc.received()...))
	assert.Equal(t, []string{"header.user-agent"}, svc.received()[0].devices[0].evidence())
}
