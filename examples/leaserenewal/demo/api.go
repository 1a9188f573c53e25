package main

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

// api is an API server whose objects have an expiry, and are deleted then.
type api struct {
	timeline timeline
	options  options

	mu       sync.Mutex // guards the following
	objects  map[string]*object
	requests map[string]int
	restored chan struct{} // not nil: the server is down, until it is closed
}

type object struct {
	document map[string]any
	expiry   time.Time
	deletion *time.Timer  // at the expiry
	deleted  func(string) // where the timeline tells of it
}

func newAPI(t timeline, o options) *api {
	return &api{timeline: t, options: o, objects: map[string]*object{}, requests: map[string]int{}}
}

// create makes an object that expires after the TTL, and tells of its deletion.
func (a *api) create(name string, deleted func(string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[name] = &object{
		document: map[string]any{"name": name},
		expiry:   time.Now().Add(a.options.ttl),
		deletion: time.AfterFunc(a.options.ttl, func() { a.lookup(name) }),
		deleted:  deleted,
	}
}

// lookup returns an object, unless there is none. One that has expired is deleted.
func (a *api) lookup(name string) *object {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.objects[name]
	if o != nil && !time.Now().Before(o.expiry) {
		delete(a.objects, name)
		o.deleted("deleted by the server: expired")
		return nil
	}
	return o
}

// breakDown takes the server out of order, from one instant of the timeline to another.
func (a *api) breakDown(ctx context.Context, from, to time.Duration) {
	if !a.timeline.SleepUntil(ctx, from) {
		return
	}
	restored := make(chan struct{})
	defer close(restored)
	a.setDown("the API server is down", restored)
	if a.timeline.SleepUntil(ctx, to) {
		a.setDown("the API server works again", nil)
	}
}

func (a *api) setDown(what string, restored chan struct{}) {
	a.timeline.line(what)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restored = restored
}

// state says what became of an object.
func (a *api) state(name string) string {
	what := "the object is gone"
	if a.lookup(name) != nil {
		what = "the object is alive"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return what + ", " + count(a.requests[name], "request")
}

// close ends the timers.
func (a *api) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.objects {
		o.deletion.Stop()
	}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	a.mu.Lock()
	a.requests[name]++
	restored := a.restored
	a.mu.Unlock()
	if restored == nil {
		a.patch(w, r, name)
		return
	}
	switch a.options.mode {
	case "status":
		http.Error(w, "the database is down", http.StatusServiceUnavailable)
	case "drop":
		panic(http.ErrAbortHandler)
	case "hang":
		select {
		case <-r.Context().Done():
		case <-restored:
		}
		panic(http.ErrAbortHandler)
	}
}

func (a *api) patch(w http.ResponseWriter, r *http.Request, name string) {
	var patch map[string]any
	contentType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.Method != http.MethodPatch || contentType != "application/merge-patch+json":
		http.Error(w, "only merge patches, please", http.StatusUnsupportedMediaType)
		return
	case r.Header.Get("Authorization") != "Bearer "+a.options.token:
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	case json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&patch) != nil:
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}

	o := a.lookup(name)
	if o == nil {
		http.Error(w, "no such object", http.StatusNotFound)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	merged, _ := merge(o.document, patch).(map[string]any)
	expiry, err := time.Parse(time.RFC3339, value(merged, a.options.field))
	if err != nil {
		http.Error(w, "no expiry", http.StatusUnprocessableEntity)
		return
	}
	o.document, o.expiry = merged, expiry
	o.deletion.Reset(time.Until(expiry))
	json.NewEncoder(w).Encode(merged)
}

// merge applies a JSON merge patch (RFC 7396).
func merge(target, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged := map[string]any{}
	if old, ok := target.(map[string]any); ok {
		for key, value := range old {
			merged[key] = value
		}
	}
	for key, value := range fields {
		if merged[key] = merge(merged[key], value); value == nil {
			delete(merged, key)
		}
	}
	return merged
}

// value returns the string that a path leads to.
func value(document any, path string) string {
	for key := range strings.SplitSeq(path, ".") {
		fields, _ := document.(map[string]any)
		document = fields[key]
	}
	s, _ := document.(string)
	return s
}
