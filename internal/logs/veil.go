package logs

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/purserpay/purser/protocol"
)

// secretHeaders lists the headers of requests and answers that hold keys and payments.
var secretHeaders = append([]string{"X-Api-Key", "X-Internal-Secret"}, protocol.Spoken().Secrets()...)

// proxyCredentials names the header that Caddy's logs hide unless log_credentials is on.
const proxyCredentials = "Proxy-Authorization"

// Veil hides secret headers from a server that logs requests before and after its handlers see them.
// The zero value is ready.
type Veil struct {
	// Answers hides headers of answers as well. It is for servers with an access log.
	Answers bool
	// Headers lists more headers of requests that are hidden, in canonical form. They are added before the server
	// serves.
	Headers []string
	// Credentials hides the API key of proxy requests, for a server that logs credentials.
	Credentials bool

	// Dropped hides headers with _ or . in their names, which Caddy removes from all requests.
	Dropped bool

	once sync.Once
}

// Draw covers the server of a connection. It has the signature of http.Server.ConnContext, which runs
// before any request of the connection is served.
func (v *Veil) Draw(ctx context.Context, _ net.Conn) context.Context {
	v.once.Do(func() {
		if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
			s.Handler = v.Cover(s.Handler)
		}
	})
	return ctx
}

// veiled holds the headers that were taken from a request.
type veiled struct{ http.Header }

type veiledKey struct{}

// Cover returns a handler that takes secret headers from requests. [Lift] gives them back behind the
// part of next that logs.
func (v *Veil) Cover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v.Answers {
			w = &veiledAnswer{ResponseWriter: w}
		}
		var taken http.Header
		for _, name := range secretHeaders {
			taken = take(taken, r.Header, name)
		}
		for _, name := range v.Headers {
			taken = take(taken, r.Header, name)
		}
		for name := range r.Header {
			if v.Dropped && strings.ContainsAny(name, "_.") {
				taken = take(taken, r.Header, name)
			}
		}
		if v.Credentials {
			taken = take(taken, r.Header, proxyCredentials)
		}
		if taken != nil {
			r = r.WithContext(context.WithValue(r.Context(), veiledKey{}, veiled{taken}))
			r.Header = maps.Clone(r.Header)
			maps.DeleteFunc(r.Header, func(name string, _ []string) bool { return taken[name] != nil })
		}
		next.ServeHTTP(w, r)
	})
}

func take(into, from http.Header, name string) http.Header {
	values, ok := from[name]
	if !ok {
		return into
	}
	if into == nil {
		into = http.Header{}
	}
	into[name] = values
	return into
}

// Lift gives a request the headers back that a Veil took from it.
func Lift(r *http.Request) {
	if v, ok := r.Context().Value(veiledKey{}).(veiled); ok {
		maps.Copy(r.Header, v.Header)
	}
}

// veiledAnswer removes secret headers once they are on their way, because an access log reads them at
// the end of a request.
type veiledAnswer struct {
	http.ResponseWriter
	sent bool
}

func (w *veiledAnswer) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if status < http.StatusOK || w.sent { // more headers follow an informational answer
		return
	}
	w.sent = true
	maps.DeleteFunc(w.Header(), func(name string, _ []string) bool { return slices.Contains(secretHeaders, name) })
}

func (w *veiledAnswer) begin() {
	if !w.sent {
		w.WriteHeader(http.StatusOK)
	}
}

func (w *veiledAnswer) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// ReadFrom keeps the way of the server's own writer for long answers.
func (w *veiledAnswer) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	return io.Copy(w.ResponseWriter, r)
}

// FlushError sends the headers, too.
func (w *veiledAnswer) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *veiledAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
