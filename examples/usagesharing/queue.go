package usagesharing

import (
	"slices"
	"strings"
)

// queue holds the entries that wait to be sent, the oldest first, and keeps account
// of all entries. Sender.mu guards it.
type queue struct {
	limit            int // MaxQueueSize
	entries          []entry
	inFlight         int
	droppedSinceRoom int
	account          Stats // but for what the fields above say
}

// offer adds a copy of the fields as an entry, if there is room. If not, it returns
// how many found none since there was room.
func (q *queue) offer(fields []field) (dropped int) {
	if len(q.entries) >= q.limit {
		q.account.DroppedFull++
		q.droppedSinceRoom++
		return q.droppedSinceRoom
	}
	q.droppedSinceRoom = 0
	q.account.Accepted++
	q.entries = append(q.entries, keep(fields))
	return 0
}

// take puts the oldest entries in flight, at most so many.
func (q *queue) take(most int) []entry {
	n := min(len(q.entries), most)
	batch := slices.Clone(q.entries[:n])
	clear(q.entries[:n]) // and not moved up: Add waits for the lock meanwhile
	q.entries = q.entries[n:]
	q.inFlight = n
	return batch
}

// result is what became of a batch that was taken.
type result int

const (
	failed result = iota
	delivered
	unsettled // not sent, or not answered yet: it becomes the front of the queue again, room or not
)

// settle accounts for the batch that is in flight.
func (q *queue) settle(batch []entry, r result) {
	n := uint64(len(batch))
	q.inFlight = 0
	switch r {
	case unsettled:
		q.entries = slices.Insert(q.entries, 0, batch...)
		return
	case delivered:
		q.account.Delivered += n
	case failed:
		q.account.DroppedFailed += n
		q.account.FailedMessages++
	}
	q.account.Messages++
}

// dropAll drops what was not sent, and returns how much that is. Nothing is in flight
// then, unless the transport panicked.
func (q *queue) dropAll() int {
	n := len(q.entries) + q.inFlight
	q.entries, q.inFlight = nil, 0
	q.account.DroppedShutdown += uint64(n)
	return n
}

func (q *queue) stats() Stats {
	s := q.account
	s.Queued, s.InFlight = uint64(len(q.entries)), uint64(q.inFlight)
	return s
}

// keep returns a copy of the fields for the queue. It shares no memory with them: a
// short value may be a part of a large string, such as the URL of a request. Of a
// value it has one character more than is sent, which tells that the value is
// longer.
func keep(fields []field) entry {
	kept := make(entry, len(fields))
	size := 0
	for i, f := range fields {
		f.value = firstCharacters(f.value, maxValue+1)
		kept[i] = f
		size += len(f.name) + len(f.value)
	}
	var text strings.Builder
	text.Grow(size)
	for _, f := range kept {
		text.WriteString(f.name)
		text.WriteString(f.value)
	}
	rest := text.String()
	for i := range kept {
		f := &kept[i]
		f.name, rest = rest[:len(f.name)], rest[len(f.name):]
		f.value, rest = rest[:len(f.value)], rest[len(f.value):]
	}
	return kept
}
