package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/respitehttp/respite/examples/usagesharing"
)

// source gives the evidence of one request after the other, and io.EOF at the end.
type source func() (usagesharing.Evidence, error)

// madeUp gives evidence without end. Every tenth request is like the one before it,
// and so is not shared.
func madeUp() source {
	agents := []string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/127.0.0.0 Mobile Safari/537.36",
		"curl/8.9.1",
	}
	n := 0
	return func() (usagesharing.Evidence, error) {
		n++
		visitor := n
		if n%10 == 0 {
			visitor--
		}
		return usagesharing.Evidence{
			"header.user-agent": agents[visitor%len(agents)],
			"header.accept":     "text/html",
			"header.cookie":     "login=secret",
			"query.session-id":  fmt.Sprint(visitor),
			"query.sequence":    "1",
			"server.client-ip":  fmt.Sprintf("2001:db8::%x:%x", visitor>>16, visitor&0xffff),
		}, nil
	}
}

// jsonLines reads evidence from lines. Empty ones are left out.
func jsonLines(r io.Reader) source {
	lines := bufio.NewReader(r)
	number := 0
	return func() (usagesharing.Evidence, error) {
		for {
			line, err := lines.ReadBytes('\n')
			number++
			if line = bytes.TrimSpace(line); len(line) > 0 {
				evidence, err := parseEvidence(line)
				if err != nil {
					err = fmt.Errorf("line %d of the evidence is not a JSON object of strings: %w", number, err)
				}
				return evidence, err
			}
			if err != nil {
				return nil, err
			}
		}
	}
}

func parseEvidence(line []byte) (usagesharing.Evidence, error) {
	var object map[string]*string // nil where it has null
	if err := json.Unmarshal(line, &object); err != nil {
		return nil, err
	}
	if object == nil {
		return nil, errors.New("it is null")
	}
	evidence := usagesharing.Evidence{}
	for key, value := range object {
		if value == nil {
			return nil, fmt.Errorf("the value of %q is null", key)
		}
		evidence[key] = *value
	}
	return evidence, nil
}
