package payapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/internal/strictjson"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 1 << 20

// reply holds an answer before it is written.
type reply struct {
	status int
	header map[string]string
	body   any // nil: none
	// finish, when set, is called after the answer. ok is true when all of it was written to a
	// caller that was still there.
	finish func(w http.ResponseWriter, ok bool)
}

// write sends the answer. It is the only function that writes to a client.
func (a *API) write(w http.ResponseWriter, r *http.Request, rep reply) {
	delivered := false
	if rep.finish != nil {
		w = conns.Ending(w, r, func() bool { return true })
		defer func() { rep.finish(w, delivered) }()
	}
	body, err := encode(rep.body)
	if err != nil {
		a.log.Error("answer not encoded", "method", r.Method, "route", r.Pattern, "error", err)
		rep = a.refuse(r, errInternal)
		body, _ = encode(rep.body) // strings only
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if rep.body != nil {
		h.Set("Content-Type", "application/json")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	for name, value := range rep.header {
		h.Set(name, value)
	}
	// The caller's presence is checked before the answer goes out. A client may leave at once with
	// the whole answer, and was answered all the same.
	waiting := conns.Asked(r.Context()).Err() == nil && !conns.Gone(r.Context())
	w.WriteHeader(rep.status)
	if r.Method == http.MethodHead || rep.body == nil {
		return
	}
	if _, werr := w.Write(body); werr != nil {
		return
	}
	if rep.finish == nil {
		return
	}
	if ferr := http.NewResponseController(w).Flush(); ferr != nil && !errors.Is(ferr, http.ErrNotSupported) {
		return
	}
	failpoint.Here(failpoint.APIAnswered)
	delivered = err == nil && waiting
}

func encode(body any) ([]byte, error) {
	switch b := body.(type) {
	case nil:
		return nil, nil
	case verbatim:
		return b, nil
	}
	var buf bytes.Buffer
	err := plainjson.Encoder(&buf).Encode(body)
	return buf.Bytes(), err
}

// fields holds the members of a JSON object. Names must match exactly. null counts as absent.
type fields map[string]json.RawMessage

// readFields reads the body as a JSON object. A request without a body counts as {}. A body that is
// too large gets a 413. Anything else is refused with the endpoint's own text.
func readFields(r *http.Request, text string) (fields, error) {
	body, err := io.ReadAll(r.Body)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, text: "Request body too large"}
	}
	if errors.Is(err, errNoRoom) {
		return nil, err
	}
	if err != nil {
		return nil, badRequest(text, "the body could not be read")
	}
	if len(body) == 0 {
		return fields{}, nil
	}
	f, err := readObject(body)
	if err != nil {
		return nil, badRequest(text, err.Error())
	}
	return f, nil
}

var (
	errNoObject = errors.New("the body is not a JSON object")
	errRepeated = errors.New("a member of the body is there more than once")
)

// readObject reads a text that must be one JSON object.
func readObject(body []byte) (fields, error) {
	// Go would replace invalid UTF-8, so that different texts became equal.
	if !utf8.Valid(body) {
		return nil, errNoObject
	}
	members, err := strictjson.Object(body)
	if errors.Is(err, strictjson.ErrRepeated) {
		return nil, errRepeated
	}
	if err != nil {
		return nil, errNoObject
	}
	maps.DeleteFunc(members, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return members, nil
}

// text returns a string member. A member of another type is refused with the given text.
func (f fields) text(name, text string) (value string, given bool, err error) {
	raw, given := f[name]
	if !given {
		return "", false, nil
	}
	if json.Unmarshal(raw, &value) != nil {
		return "", true, badRequest(text, name+" is not a string")
	}
	return value, true, nil
}

// Bounds of listings.
const (
	defaultLimit = 100
	maxLimit     = 500
)

// page says which part of a listing the caller wants.
type page struct {
	query  url.Values
	limit  int
	before string
}

// readPage reads the query of a listing.
func readPage(r *http.Request) (page, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return page{}, badRequest("Invalid query", "")
	}
	p := page{query: query, limit: defaultLimit}
	limit, given, err := p.only("limit")
	if err != nil {
		return page{}, err
	}
	if given {
		n, err := strconv.ParseUint(limit, 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) || n == 0 {
			return page{}, badRequest("Invalid limit", "a whole number from 1 to 500")
		}
		p.limit = int(min(n, maxLimit))
	}
	if p.before, _, err = p.only("before"); err != nil {
		return page{}, err
	}
	if p.before != "" && !validID(p.before) {
		return page{}, errBefore
	}
	return p, nil
}

// only returns the value of a parameter. Several values are refused, because each reader could take
// another one.
func (p page) only(name string) (value string, given bool, err error) {
	switch values := p.query[name]; len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	}
	return "", true, badRequest("Invalid "+name, "it is given more than once")
}

// pathID returns the id in a request's path, or notFound when it cannot be an id.
func pathID(r *http.Request, notFound error) (string, error) {
	id := r.PathValue("id")
	if !validID(id) {
		return "", notFound
	}
	return id, nil
}

// validID reports whether s is a UUID in the form that purser writes.
func validID(s string) bool { return len(s) == len(uuid.Nil.String()) && uuid.Validate(s) == nil }

// stamp formats a time as RFC 3339 in UTC with milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
