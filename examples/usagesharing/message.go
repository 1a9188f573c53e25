package usagesharing

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxValue is how many characters of a value are sent.
const maxValue = 512

// encoder makes messages. What it holds is reused from one message to the next,
// except the finished one: net/http may go on reading that when the request is over.
// It is not safe for concurrent use.
type encoder struct {
	logger  func() *slog.Logger
	zip     *gzip.Writer
	device  []byte
	program []byte // the elements that describe the program
	machine []byte // and those of its machine
}

func newEncoder(cfg Config, logger func() *slog.Logger) *encoder {
	m := &encoder{logger: logger, zip: gzip.NewWriter(nil)}
	m.program = appendElement(m.program, "Version", cfg.Version)
	m.program = appendElement(m.program, "Product", cfg.Product)
	for _, name := range cfg.FlowElements {
		m.program = appendElement(m.program, "FlowElement", name)
	}
	m.program = appendElement(m.program, "Language", "Go")
	m.program = appendElement(m.program, "LanguageVersion", runtime.Version())
	m.machine = appendElement(m.machine, "ServerIP", cfg.ServerIP)
	m.machine = appendElement(m.machine, "Platform", runtime.GOOS+"/"+runtime.GOARCH)
	return m
}

// message returns the compressed document that holds the batch. That may be large, so
// it gives up when ctx ends.
func (m *encoder) message(ctx context.Context, batch []entry, sent time.Time) ([]byte, error) {
	dateSent := sent.UTC().Format("2006-01-02T15:04:05")
	var message bytes.Buffer
	m.zip.Reset(&message)
	// The errors of the writer are those of the buffer, which has none.
	m.zip.Write([]byte(`<Devices version="1.1">`))
	for _, e := range batch {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m.device = m.appendDevice(m.device[:0], e, dateSent)
		m.zip.Write(m.device)
	}
	m.zip.Write([]byte(`</Devices>`))
	m.zip.Close()
	return message.Bytes(), nil
}

// appendDevice also sorts e: a fixed order compresses better.
func (m *encoder) appendDevice(b []byte, e entry, dateSent string) []byte {
	slices.SortFunc(e, func(f, g field) int {
		return cmp.Or(strings.Compare(f.element, g.element), strings.Compare(f.name, g.name))
	})
	b = append(b, "<Device>"...)
	session, _ := e.value(sessionID)
	b = appendElement(b, sessionID, session)
	if text, ok := e.value(sequence); ok {
		if _, err := strconv.ParseInt(text, 10, 64); err == nil && len(text) <= maxValue {
			b = appendElement(b, sequence, text)
		} else {
			m.logger().Debug("usage sharing: sequence left out: it is no integer")
		}
	}
	b = appendElement(b, "DateSent", dateSent)
	b = append(b, m.program...)
	client, _ := e.value(clientIP)
	b = appendElement(b, clientIP, client)
	b = append(b, m.machine...)
	for _, f := range e {
		if f.isEvidence() {
			b = appendEvidence(b, f)
		}
	}
	return append(b, "</Device>"...)
}

func (e entry) value(element string) (string, bool) {
	for _, f := range e {
		if f.element == element {
			return f.value, true
		}
	}
	return "", false
}

func appendEvidence(b []byte, f field) []byte {
	b = append(append(b, '<'), f.element...)
	b = append(b, ` Name="`...)
	b = append(appendText(b, f.name), '"')
	return appendValue(b, f.element, f.value)
}

func appendElement(b []byte, element, value string) []byte {
	b = append(append(b, '<'), element...)
	return appendValue(b, element, value)
}

// appendValue completes an element whose start tag is still open.
func appendValue(b []byte, element, value string) []byte {
	text := firstCharacters(value, maxValue)
	if !utf8.ValidString(text) || strings.ContainsFunc(text, forbidden) {
		b = append(b, ` escaped="true"`...)
	}
	if len(text) < len(value) {
		b = append(b, ` truncated="true"`...)
	}
	b = append(b, '>')
	b = appendText(b, text)
	b = append(append(b, "</"...), element...)
	return append(b, '>')
}

// appendText appends s so that an XML parser reads it as it is, in an attribute too,
// but for U+FFFD in place of each forbidden character and each invalid byte.
func appendText(b []byte, s string) []byte {
	for _, r := range s { // an invalid byte is a utf8.RuneError, which is U+FFFD
		switch {
		case r == '&':
			b = append(b, "&amp;"...)
		case r == '<':
			b = append(b, "&lt;"...)
		case r == '>':
			b = append(b, "&gt;"...)
		case r == '"':
			b = append(b, "&#34;"...)
		case r == '\t' || r == '\n' || r == '\r': // which a parser would change
			b = append(strconv.AppendInt(append(b, "&#"...), int64(r), 10), ';')
		case forbidden(r):
			b = utf8.AppendRune(b, utf8.RuneError)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// forbidden reports whether XML 1.0 has no such character, not even escaped.
func forbidden(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
}

// firstCharacters returns the first n characters of s, or all if it has fewer. An
// invalid byte counts as one.
func firstCharacters(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
