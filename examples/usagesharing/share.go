package usagesharing

import (
	"container/list"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Evidence is what is known of one request. Its keys are of the form
// "header.user-agent": where a value comes from (header, cookie, query or server),
// a dot and its name, in any case of letters. A key of another form is evidence of
// no known origin.
//
// Three keys have a meaning of their own: "server.client-ip" is the address of the
// client, "query.session-id" and "query.sequence" tell which request of which
// session it was. A sequence that is no integer of 64 bits is left out. If one of the
// three is there in several cases of letters, that which is first in the order of
// bytes is sent.
type Evidence map[string]string

// entry is the evidence of one request that is to be sent, without order.
type entry []field

// field is one value, and the element of the message that it goes to.
type field struct {
	element string
	name    string // the one that evidence has in the message; of other fields, the key
	value   string
}

// The elements of a field that are no evidence.
const (
	sessionID = "SessionId"
	sequence  = "Sequence"
	clientIP  = "ClientIP"
)

func (f field) isEvidence() bool {
	return f.element != sessionID && f.element != sequence && f.element != clientIP
}

// elementOf returns the element that a key of Evidence goes to, and the name that it
// has there.
func elementOf(key string) (element, name string) {
	switch {
	case strings.EqualFold(key, "query.session-id"):
		return sessionID, key
	case strings.EqualFold(key, "query.sequence"):
		return sequence, key
	case strings.EqualFold(key, "server.client-ip"):
		return clientIP, key
	}
	if origin, rest, found := strings.Cut(key, "."); found {
		for _, element := range []string{"header", "cookie", "query", "server"} {
			if strings.EqualFold(origin, element) {
				return element, rest
			}
		}
	}
	return "evidence", key
}

// filter chooses the evidence that is shared. It is not changed after New.
type filter struct {
	all, allQuery   bool
	blockedHeaders  []string
	includedQueries []string
	percentage      float64
	seed            maphash.Seed
}

// apply appends what is shared of e to fields, and returns with it a fingerprint of
// that: a number that is the same for equal evidence, whatever session id and
// sequence. It returns nothing if nothing else is shared.
//
// The chance that different evidence has the fingerprint of one of 1000 others is
// 1 in 2^54. The seed is random, so that none can be prepared.
func (f *filter) apply(fields []field, e Evidence) ([]field, uint64) {
	if f.percentage < 1 && rand.Float64() >= f.percentage {
		return nil, 0
	}
	for key, value := range e {
		if element, name := elementOf(key); f.shares(element, name) {
			fields = with(fields, field{element, name, value})
		}
	}
	worthIt := false
	var fingerprint uint64
	for _, shared := range fields {
		switch shared.element {
		case sessionID, sequence:
			continue
		case clientIP:
			shared.name = "" // which is not sent
		}
		worthIt = true
		fingerprint += maphash.Comparable(f.seed, shared) // a sum: a map has no order
	}
	if !worthIt {
		return nil, 0
	}
	return fields, fingerprint
}

// with returns the fields with one more. Of those that are no evidence, there is one of
// a kind: that with the first key.
func with(fields []field, f field) []field {
	if !f.isEvidence() {
		same := func(other field) bool { return other.element == f.element }
		if i := slices.IndexFunc(fields, same); i >= 0 {
			if f.name < fields[i].name {
				fields[i] = f
			}
			return fields
		}
	}
	return append(fields, f)
}

func (f *filter) shares(element, name string) bool {
	switch {
	case f.all:
		return true
	case element == "header":
		return !containsFold(f.blockedHeaders, name)
	case element == "cookie":
		return is51D(name)
	case element == "query":
		return f.allQuery || is51D(name) || containsFold(f.includedQueries, name)
	}
	return true
}

func is51D(name string) bool {
	const prefix = "51D_"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

func containsFold(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// trackedEntries is how many entries session tracking remembers.
const trackedEntries = 1000

// tracker is the session tracking: it knows what was shared a short while ago, by
// its fingerprint. It remembers the trackedEntries that came last. Sender.mu guards
// it.
type tracker struct {
	interval time.Duration
	known    map[uint64]*list.Element
	recent   list.List // of sharing, the last to come in front
}

type sharing struct {
	fingerprint uint64
	at          time.Time
}

func newTracker(interval time.Duration) *tracker {
	return &tracker{interval: interval, known: make(map[uint64]*list.Element)}
}

// repeats reports whether the same was shared less than the interval before now.
func (t *tracker) repeats(fingerprint uint64, now time.Time) bool {
	known := t.known[fingerprint]
	if known == nil {
		return false
	}
	t.recent.MoveToFront(known)
	return now.Sub(known.Value.(sharing).at) < t.interval
}

// shared notes that it is shared now.
func (t *tracker) shared(fingerprint uint64, now time.Time) {
	if known := t.known[fingerprint]; known != nil {
		known.Value = sharing{fingerprint, now}
		return
	}
	if len(t.known) == trackedEntries {
		oldest := t.recent.Remove(t.recent.Back()).(sharing)
		delete(t.known, oldest.fingerprint)
	}
	t.known[fingerprint] = t.recent.PushFront(sharing{fingerprint, now})
}
