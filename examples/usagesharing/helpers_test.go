package usagesharing_test

import (
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/examples/usagesharing"
	"github.com/respitehttp/respite/httptestutil"
)

// service is the receiver of the messages, as a RoundTripper. It decodes each one
// and then does the next step, or the last one again.
type service struct {
	tb    testing.TB
	steps []httptestutil.Step

	mu       sync.Mutex
	messages []message
}

// message is one that arrived.
type message struct {
	at      time.Time
	header  http.Header
	devices []element
}

func newService(tb testing.TB, steps ...httptestutil.Step) *service {
	return &service{tb: tb, steps: steps}
}

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	defer req.Body.Close()
	devices, err := decode(req.Body)
	if err != nil {
		s.tb.Errorf("a message that cannot be read: %v", err)
	}
	s.mu.Lock()
	s.messages = append(s.messages, message{time.Now(), req.Header, devices})
	step := s.steps[min(len(s.messages), len(s.steps))-1]
	s.mu.Unlock()
	return step(req)
}

func (s *service) received() []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

// agents returns the user agents of all devices, in the order of their arrival.
func agents(messages ...message) []string {
	var all []string
	for _, m := range messages {
		for _, d := range m.devices {
			all = append(all, d.find("header", "user-agent").text)
		}
	}
	return all
}

// sizes returns how many entries each message had.
func sizes(messages []message) []int {
	var all []int
	for _, m := range messages {
		all = append(all, len(m.devices))
	}
	return all
}

// element is one XML element.
type element struct {
	name     string
	attrs    map[string]string
	text     string
	children []element
}

// find returns the child with that element name and Name, if not empty.
func (e element) find(element, name string) (found element) {
	for _, c := range e.children {
		if c.name == element && (name == "" || c.attrs["Name"] == name) {
			return c
		}
	}
	return
}

// names returns the names of the children.
func (e element) names() []string {
	var all []string
	for _, c := range e.children {
		all = append(all, c.name)
	}
	return all
}

// evidence returns the shared keys of a device, such as "header.accept".
func (e element) evidence() []string {
	var all []string
	for _, c := range e.children {
		if name, ok := c.attrs["Name"]; ok {
			all = append(all, c.name+"."+name)
		}
	}
	slices.Sort(all)
	return all
}

// decode reads a compressed message to its end and returns its devices.
func decode(r io.Reader) ([]element, error) {
	plain, err := unzip(r)
	if err != nil {
		return nil, err
	}
	return parse(plain)
}

func unzip(r io.Reader) (string, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return "", err
	}
	plain, err := io.ReadAll(zip)
	return string(plain), err
}

// parse reads a document of nothing but elements and text, and refuses any text that
// is not within a leaf.
func parse(document string) ([]element, error) {
	d := xml.NewDecoder(strings.NewReader(document))
	root := element{}
	open := []*element{&root}
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		top := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				if _, twice := e.attrs[a.Name.Local]; twice || token.Name.Space+a.Name.Space != "" {
					return nil, fmt.Errorf("attribute %v of %v", a.Name, token.Name)
				}
				e.attrs[a.Name.Local] = a.Value
			}
			top.children = append(top.children, e)
			open = append(open, &top.children[len(top.children)-1])
		case xml.EndElement:
			open = open[:len(open)-1]
			if len(top.children) > 0 && top.text != "" {
				return nil, fmt.Errorf("text between elements: %q", top.text)
			}
		case xml.CharData:
			top.text += string(token)
		default:
			return nil, fmt.Errorf("unexpected %T", token)
		}
	}
	if len(root.children) != 1 || root.text != "" {
		return nil, errors.New("not one element")
	}
	devices := root.children[0]
	if devices.name != "Devices" || len(devices.attrs) != 1 || devices.attrs["version"] != "1.1" {
		return nil, fmt.Errorf("root element %+v", devices)
	}
	for _, d := range devices.children {
		if d.name != "Device" || len(d.attrs) != 0 {
			return nil, fmt.Errorf("not a Device: %+v", d)
		}
	}
	return devices.children, nil
}

// visitor is the evidence of the nth of many different requests.
func visitor(n int) usagesharing.Evidence {
	return usagesharing.Evidence{"header.user-agent": agent(n)}
}

func agent(n int) string { return fmt.Sprint("agent ", n) }

// visitors returns the user agents of n visitors, from the given one on.
func visitors(first, n int) []string {
	var all []string
	for i := range n {
		all = append(all, agent(first+i))
	}
	return all
}

// add adds n visitors, from the given one on, and returns how many were queued.
func add(s *usagesharing.Sender, first, n int) (queued int) {
	for i := range n {
		if s.Add(visitor(first + i)) {
			queued++
		}
	}
	return queued
}

func newSender(tb testing.TB, cfg usagesharing.Config) *usagesharing.Sender {
	tb.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := usagesharing.New(cfg)
	require.NoError(tb, err)
	return s
}

// errOver is the cause with which the tests end Run.
var errOver = errors.New("the program ends")

// start calls Run. The returned function ends it, and checks what it returns.
func start(t *testing.T, s *usagesharing.Sender) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		t.Helper()
		cancel(errOver)
		require.Equal(t, errOver, <-done)
		checkAccount(t, s.Stats())
	}
}

// drain lets Run send all that is queued.
func drain(t *testing.T, s *usagesharing.Sender) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errOver)
	require.Equal(t, errOver, s.Run(ctx))
	checkAccount(t, s.Stats())
}

func checkAccount(tb testing.TB, s usagesharing.Stats) {
	tb.Helper()
	require.Equal(tb, s.Accepted, s.Delivered+s.DroppedFailed+s.DroppedShutdown+s.Queued+s.InFlight, "%+v", s)
}

// records is a slog.Handler that keeps each record as a line.
type records struct {
	mu    sync.Mutex
	lines []string
}

func (r *records) logger() *slog.Logger { return slog.New(r) }

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }

func (r *records) Handle(_ context.Context, record slog.Record) error {
	line := record.Level.String() + " " + record.Message
	record.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	return nil
}

// with returns the records that contain the text.
func (r *records) with(text string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	for _, line := range r.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// handlerFunc is a slog.Handler that is called for each record.
type handlerFunc func()

func (f handlerFunc) logger() *slog.Logger                      { return slog.New(f) }
func (f handlerFunc) Enabled(context.Context, slog.Level) bool  { return true }
func (f handlerFunc) WithAttrs([]slog.Attr) slog.Handler        { return f }
func (f handlerFunc) WithGroup(string) slog.Handler             { return f }
func (f handlerFunc) Handle(context.Context, slog.Record) error { f(); return nil }

func setDefaultLogger(t *testing.T) *records {
	old, logged := slog.Default(), new(records)
	slog.SetDefault(slog.New(logged))
	t.Cleanup(func() { slog.SetDefault(old) })
	return logged
}
