package usagesharing

import (
	"log/slog"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// typicalEvidence is what a browser's request gives; nothing of it is left out.
func typicalEvidence(n int) Evidence {
	return Evidence{
		"header.host":                      "www.example.com",
		"header.user-agent":                "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/127.0.0.0 Mobile Safari/537.36 " + strconv.Itoa(n),
		"header.accept":                    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
		"header.accept-language":           "en-GB,en;q=0.9,de;q=0.8",
		"header.accept-encoding":           "gzip, deflate, br, zstd",
		"header.sec-ch-ua":                 `"Not)A;Brand";v="99", "Google Chrome";v="127", "Chromium";v="127"`,
		"header.sec-ch-ua-mobile":          "?1",
		"header.sec-ch-ua-platform":        `"Android"`,
		"header.sec-fetch-mode":            "navigate",
		"header.upgrade-insecure-requests": "1",
		"header.referer":                   "https://www.example.com/catalogue/shoes?page=2",
		"server.client-ip":                 "192.0.2.17",
		"query.session-id":                 "5f9c1a52-2c1e-4b64-9a3e-0d8c3f0e7f11",
		"query.sequence":                   strconv.Itoa(n),
	}
}

func quietSender(tb testing.TB, cfg Config) *Sender {
	cfg.Logger = slog.New(slog.DiscardHandler)
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// own is more evidence than session tracking remembers.
const own = 1024

// distinct returns that much for each of 16 goroutines.
func distinct() []Evidence {
	all := make([]Evidence, 16*own)
	for i := range all {
		all[i] = typicalEvidence(i)
	}
	return all
}

// BenchmarkAdd is the cost for the program that is served: of evidence that is
// queued, of evidence that finds the queue full, and of a repetition.
func BenchmarkAdd(b *testing.B) {
	all := distinct()
	for _, c := range []struct {
		name     string
		size     int
		evidence []Evidence
	}{
		{"queued", 1 << 62, all},
		{"full", 50, all},
		{"repeated", 50, all[:1]},
	} {
		emptied := func(s *Sender, i int) { // as sending does, so that the queue stays small
			if c.name == "queued" && i%1000 == 999 {
				s.mu.Lock()
				s.queue.settle(s.queue.take(1000), delivered)
				s.mu.Unlock()
			}
		}
		b.Run(c.name+"/serial", func(b *testing.B) {
			s := quietSender(b, Config{MaxQueueSize: c.size})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Add(c.evidence[i%len(c.evidence)])
				emptied(s, i)
			}
		})
		b.Run(c.name+"/16goroutines", func(b *testing.B) {
			s := quietSender(b, Config{MaxQueueSize: c.size})
			b.ReportAllocs()
			b.SetParallelism(16 / runtime.GOMAXPROCS(0))
			var started atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				first := int(started.Add(1)-1) * own
				for i := 0; pb.Next(); i++ {
					s.Add(c.evidence[(first+i%own)%len(c.evidence)])
					emptied(s, i)
				}
			})
		})
	}
}

// BenchmarkMessage makes a message of 100 entries.
func BenchmarkMessage(b *testing.B) {
	s := quietSender(b, Config{})
	for i := range 100 {
		s.Add(typicalEvidence(i))
	}
	m := newEncoder(s.cfg, s.logger)
	var message []byte
	b.ReportAllocs()
	for b.Loop() {
		message, _ = m.message(b.Context(), s.queue.entries, time.Now())
	}
	b.ReportMetric(float64(len(message)), "bytes")
}

// BenchmarkFullQueue gives the memory of a queue of 1000 typical entries, with that
// of session tracking.
func BenchmarkFullQueue(b *testing.B) {
	for b.Loop() {
		before := heap()
		s := quietSender(b, Config{})
		for i := range 1000 {
			s.Add(typicalEvidence(i))
		}
		b.ReportMetric(float64(heap()-before)/1000, "bytes/entry")
		runtime.KeepAlive(s)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
