package usagesharing_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/respitehttp/respite/examples/usagesharing"
	"github.com/respitehttp/respite/httptestutil"
)

// U4: one message at a time, of the oldest entries, at least the minimum and at most
// twice that.
func TestMessagesTakeTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		svc := newService(t, func(r *http.Request) (*http.Response, error) {
			assert.EqualValues(t, 1, running.Add(1), "messages in flight")
			time.Sleep(time.Second)
			running.Add(-1)
			return httptestutil.Status(200, "")(r)
		})
		s := newSender(t, usagesharing.Config{Transport: svc, MinEntriesPerMessage: 10})
		defer start(t, s)()

		add(s, 0, 9)
		synctest.Wait()
		assert.Empty(t, svc.received(), "9 are too few")
		add(s, 9, 1)
		synctest.Wait()
		assert.Equal(t, []int{10}, sizes(svc.received()), "10 are enough")
		add(s, 10, 57)
		time.Sleep(time.Minute)
		assert.Equal(t, []int{10, 20, 20, 17}, sizes(svc.received()))
		assert.Equal(t, visitors(0, 67), agents(svc.received()...))
	})
}

// U1, U2, D42: adding never waits, the queue is bounded, and each entry is either
// refused or sent once.
func TestOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		svc := newService(t, func(r *http.Request) (*http.Response, error) {
			<-release
			return httptestutil.Status(200, "")(r)
		})
		s := newSender(t, usagesharing.Config{Transport: svc, MinEntriesPerMessage: 10, MaxQueueSize: 100})
		stop := start(t, s)
		add(s, 0, 10)
		synctest.Wait() // the first message is in flight

		began := time.Now()
		var queued []string
		for i := 10; i < 1000; i++ {
			if s.Add(visitor(i)) {
				queued = append(queued, agent(i))
			}
		}
		assert.Zero(t, time.Since(began))
		assert.Equal(t, visitors(10, 100), queued, "the first to come")
		assert.Equal(t, usagesharing.Stats{Accepted: 110, DroppedFull: 890, Queued: 100, InFlight: 10}, s.Stats())

		close(release)
		synctest.Wait()
		assert.Equal(t, visitors(0, 110), agents(svc.received()...))
		stop()
		assert.Equal(t, usagesharing.Stats{Accepted: 110, DroppedFull: 890, Delivered: 110, Messages: 6}, s.Stats())
	})
}

// U3: a warning for the first entry that is dropped and one per 1000 then; when the
// queue has had room, the first counts again.
func TestFullQueueWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := new(records)
		svc := newService(t, httptestutil.Status(200, ""))
		s := newSender(t, usagesharing.Config{Transport: svc, MinEntriesPerMessage: 10, MaxQueueSize: 10, Logger: logged.logger()})
		drop := func(n int) {
			assert.Zero(t, add(s, 100, n))
		}
		warnings := func() int { return len(logged.with("WARN")) }

		add(s, 0, 10)
		assert.Equal(t, 0, warnings(), "full, but nothing dropped")
		drop(1)
		assert.Equal(t, 1, warnings())
		drop(999)
		assert.Equal(t, 1, warnings(), "after 1000")
		drop(1)
		assert.Equal(t, 2, warnings(), "after 1001")
		drop(999)
		assert.Equal(t, 2, warnings(), "after 2000")
		drop(1)
		assert.Equal(t, []string{
			"WARN usage sharing: queue is full, new entries are dropped size=10 dropped=1 total=1",
			"WARN usage sharing: queue is full, new entries are dropped size=10 dropped=1001 total=1001",
			"WARN usage sharing: queue is full, new entries are dropped size=10 dropped=2001 total=2001",
		}, logged.with("WARN"))

		stop := start(t, s)
		synctest.Wait()
		assert.Equal(t, 9, add(s, 10, 9))
		stop()
		assert.EqualValues(t, 2001, s.Stats().DroppedFull)
		assert.Equal(t, 3, warnings())
	})
}

// U3: when the queue has had room, the count starts again.
func TestFullQueueWarningsStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := new(records)
		release := make(chan struct{})
		svc := newService(t, func(r *http.Request) (*http.Response, error) {
			<-release
			return httptestutil.Status(200, "")(r)
		})
		s := newSender(t, usagesharing.Config{Transport: svc, MinEntriesPerMessage: 10, MaxQueueSize: 10, Logger: logged.logger()})
		defer start(t, s)()
		next := 0
		for round := range 3 {
			assert.Equal(t, 10, add(s, next, 10))
			synctest.Wait() // they are in flight
			assert.Equal(t, 10, add(s, next+10, 1000))
			assert.Len(t, logged.with("dropped=1 "), round+1)
			assert.Len(t, logged.with(fmt.Sprintf("total=%d", 990*round+1)), 1, "but not that in all")
			next += 2000
			release <- struct{}{}
			release <- struct{}{}
			synctest.Wait()
		}
		assert.EqualValues(t, 3*990, s.Stats().DroppedFull)
		assert.Len(t, logged.with("WARN"), 3)
	})
}
