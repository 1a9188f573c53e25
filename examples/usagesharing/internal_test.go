package usagesharing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTrackerModel compares the tracker with one that is obviously right, and slow.
// The fingerprints are many more than are remembered, and some of them come often.
func TestTrackerModel(t *testing.T) {
	const interval = 1000
	rapid.Check(t, func(t *rapid.T) {
		fast := newTracker(interval)
		var slow []sharing // the last to come at the end
		var now time.Time
		often := rapid.SliceOfN(rapid.Uint64Range(0, 10_000), 1, 20).Draw(t, "often")
		next := rapid.Uint64Range(0, 10_000).Draw(t, "next")
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			news := rapid.IntRange(0, 200).Draw(t, "news")
			step := rapid.Int64Range(0, 20).Draw(t, "step")
			for i := range news + len(often) {
				print := next % 10_001
				if i < news {
					next++
				} else {
					print = often[i-news]
				}
				now = now.Add(time.Duration(step))

				known := slices.IndexFunc(slow, func(s sharing) bool { return s.fingerprint == print })
				repeated := known >= 0 && now.Sub(slow[known].at) < interval
				if got := fast.repeats(print, now); got != repeated {
					t.Fatalf("repeats is %v for %d at %v", got, print, now)
				}
				at := now
				if known >= 0 {
					if repeated {
						at = slow[known].at
					}
					slow = slices.Delete(slow, known, known+1)
				}
				slow = append(slow, sharing{print, at})
				if len(slow) > 1000 {
					slow = slow[1:]
				}
				if !repeated {
					fast.shared(print, now)
				}
				if len(fast.known) != len(slow) || fast.recent.Len() != len(slow) {
					t.Fatalf("%d and %d are known, not %d", len(fast.known), fast.recent.Len(), len(slow))
				}
			}
		}
	})
}

// U9: the date is UTC, wherever the program runs.
func TestDateSentIsUTC(t *testing.T) {
	sent := time.Date(2026, 1, 1, 0, 30, 0, 999, time.FixedZone("", 3600))
	message, err := newEncoder(Config{}, slog.Default).message(t.Context(), []entry{{{"header", "a", "1"}}}, sent)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	document, err := io.ReadAll(zip)
	if err != nil || !bytes.Contains(document, []byte("<DateSent>2025-12-31T23:30:00</DateSent>")) {
		t.Errorf("%v in %s", err, document)
	}
}

// The Sender's own transport speaks HTTP/1.1 to a server that could do more.
func TestOwnTransport(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	own := ownTransport()
	defer own.CloseIdleConnections()
	own.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
	own.TLSClientConfig.RootCAs.AddCert(server.Certificate())
	resp, err := (&http.Client{Transport: own}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if proto, err := io.ReadAll(resp.Body); err != nil || string(proto) != "HTTP/1.1" {
		t.Errorf("%s, %v", proto, err)
	}
}

// U12: the end of the context is seen while a message is made.
func TestMessageGivesUp(t *testing.T) {
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gaveUp)
	message, err := newEncoder(Config{}, slog.Default).message(ctx, []entry{{{"header", "a", "1"}}}, time.Now())
	if message != nil || err != gaveUp {
		t.Errorf("%q, %v", message, err)
	}
}

// Add holds the lock that taking needs: so that does not move the entries that stay,
// however many they are; and it keeps none of those that it took from being freed.
func TestTakeLeavesTheRestInPlace(t *testing.T) {
	q := queue{limit: 100}
	for range q.limit {
		q.offer([]field{{"header", "a", "1"}})
	}
	whole, third := q.entries, &q.entries[2]
	batch := q.take(2)
	if &q.entries[0] != third || len(q.entries) != 98 || len(batch) != 2 {
		t.Error("the queue has moved")
	}
	if whole[0] != nil || whole[1] != nil || batch[0] == nil || batch[1] == nil {
		t.Error("what was taken is still in the queue")
	}
}

// An entry holds no memory that is not its own: neither the URL that a short value
// is a part of, nor what is cut from a long one.
func TestMemoryOfTheQueue(t *testing.T) {
	s := quietSender(t, Config{})
	before := heap()
	for i := range 50 {
		url := strings.Repeat(string(rune('a'+i%26)), 1<<20) + strconv.Itoa(i)
		if !s.Add(Evidence{"query.51D_a": url[1<<20:], "header.referer": url}) {
			t.Fatal("not queued")
		}
	}
	// 50 MiB went in, of which 600 bytes each are sent.
	used := int64(heap() - before)
	if stats := s.Stats(); used > 1<<20 {
		t.Errorf("%d bytes for %d entries", used, stats.Queued)
	}
}
