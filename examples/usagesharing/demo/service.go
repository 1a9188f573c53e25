package main

import (
	"compress/gzip"
	"encoding/xml"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// service is the demo's own receiver of messages.
type service struct {
	url             string
	http            http.Server
	fails, recovers time.Time // at these instants

	mu                         sync.Mutex // guards the rest
	entries, messages, refused uint64
}

func startService(fails, recovers time.Duration) (*service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	now := time.Now()
	s := &service{url: "http://" + listener.Addr().String(), fails: now.Add(fails), recovers: now.Add(recovers)}
	s.http.Handler = s
	go s.http.Serve(listener)
	return s, nil
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	entries, err := count(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.After(s.fails) && now.Before(s.recovers) {
		s.refused++
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	}
	s.messages++
	s.entries += entries
}

func (s *service) counts() (entries, messages, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries, s.messages, s.refused
}

// count returns how many entries a message has.
func count(message io.Reader) (uint64, error) {
	document, err := gzip.NewReader(message)
	if err != nil {
		return 0, err
	}
	var devices struct {
		Device []struct{} `xml:"Device"`
	}
	err = xml.NewDecoder(document).Decode(&devices)
	return uint64(len(devices.Device)), err
}
