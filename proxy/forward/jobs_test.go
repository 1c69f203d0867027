package forward

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// jobSeller sells jobs, by POST /jobs. Each answer is what the test says.
func jobSeller(t *testing.T, ordered func(rw http.ResponseWriter, base string)) *proxytest.Seller {
	t.Helper()
	s := proxytest.NewSeller(t)
	answer := func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			ordered(rw, "http://"+r.Host)
			return
		}
		_, _ = io.WriteString(rw, "running")
	}
	s.Paid = func(rw http.ResponseWriter, r *http.Request, _ int) { answer(rw, r) }
	s.Reuse = answer
	return s
}

// Questions about a job carry the job's one payment, at once or one by one, at whichever node.
func TestJobsArePaidOnce(t *testing.T) {
	t.Parallel()
	tell := func(status int, body string, header ...string) func(http.ResponseWriter, string) {
		return func(rw http.ResponseWriter, base string) {
			for i := 0; i+1 < len(header); i += 2 {
				rw.Header().Set(header[i], strings.ReplaceAll(header[i+1], "BASE", base))
			}
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, strings.ReplaceAll(body, "BASE", base))
		}
	}
	for name, ordered := range map[string]func(http.ResponseWriter, string){
		"poll_url":         tell(202, `{"poll_url":"/jobs/1"}`),
		"an absolute URL":  tell(200, `{"id":1,"status_url":"BASE/jobs/1"}`),
		"one level deeper": tell(201, `{"data":{"pollingUrl":"/jobs/1"}}`),
		"Replicate":        tell(201, `{"urls":{"get":"BASE/jobs/1","cancel":"BASE/jobs/1/cancel"}}`),
		"compressed": func(rw http.ResponseWriter, _ string) {
			rw.Header().Set("Content-Type", "application/json")
			rw.Header().Set("Content-Encoding", "gzip")
			out := gzip.NewWriter(rw)
			for _, part := range []string{`{"poll_url":`, `"/jobs/1"`, "}\n"} {
				_, _ = io.WriteString(out, part)
				_ = out.Flush()
				_ = http.NewResponseController(rw).Flush()
			}
			_ = out.Close()
		},
		"Location":           tell(202, `{}`, "Location", "/jobs/1"),
		"relative Location":  tell(201, `{}`, "Location", "jobs/1"),
		"Operation-Location": tell(202, ``, "Operation-Location", "BASE/jobs/1?api-version=1"),
		"Content-Location":   tell(202, `[]`, "Content-Location", "/jobs/1"),
		"Link":               tell(202, ``, "Link", `</doc>; rel=help, </jobs/1>; title="a"; rel="monitor self"`),
		"an id":              tell(200, `{"id":"1","object":"video","status":"queued"}`),
		"an id of a 202":     tell(202, `{"data":{"task_id":"1"}}`),
		"an endpoint":        tell(202, `{"result":{"status_endpoint":"/jobs/1"}}`),
		"Durable Functions":  tell(202, `{"id":"2","statusQueryGetUri":"BASE/jobs/1"}`),
		"HAL":                tell(202, `{"_links":{"self":{"href":"/jobs/1"}}}`),
		"JSON:API":           tell(202, `{"data":{"links":{"self":"/jobs/1"}}}`),
		"links in a list":    tell(201, `{"links":[{"rel":"help","href":"/doc"},{"rel":"status","href":"/jobs/1"}]}`),
		"a stream":           tell(201, `{"urls":{"get":"/jobs/2","stream":"/jobs/1"}}`),
	} {
		for nodes := 1; nodes <= 2; nodes++ {
			t.Run(fmt.Sprintf("%s, nodes %d", name, nodes), func(t *testing.T) {
				t.Parallel()
				f, s := newFollower(t, nodes), jobSeller(t, ordered)
				where := s.URL + "/jobs/1"
				if strings.HasPrefix(name, "Operation") {
					where += "?api-version=1"
				}
				order := f.w.do(f.proxies[0], proxytest.Request(t, "POST", s.URL+"/jobs", strings.NewReader("{}"), "Accept-Encoding", "gzip"))
				id := order.Header.Get(proxy.HeaderPayment)
				if id == "" {
					t.Fatalf("%d %q", order.StatusCode, order.Text)
				}
				var asked sync.WaitGroup
				for i := range 6 {
					asked.Go(func() {
						got := f.w.do(f.proxies[i%nodes], proxytest.Request(t, "GET", where, nil))
						if got.Text != "running" || got.Header.Get(proxy.HeaderPayment) != id {
							t.Errorf("%d %q", got.StatusCode, got.Text)
						}
					})
				}
				asked.Wait()
				if n := len(f.w.Payments()); n != 1 {
					t.Errorf("%d payments of one job", n)
				}
			})
		}
	}
}

// A GET that is answered with 202 is asked again where it was, and gets the same payment until its answer has come. An
// order that is sent a second time is another one.
func TestAcceptedIsNoAnswer(t *testing.T) {
	t.Parallel()
	f, s := newFollower(t, 2), proxytest.NewSeller(t)
	status := http.StatusAccepted
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { rw.WriteHeader(http.StatusAccepted) }
	s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) }
	ask := func(method string, node int) (string, int) {
		got := f.w.do(f.proxies[node], proxytest.Request(t, method, s.URL+"/report", nil))
		return got.Header.Get(proxy.HeaderPayment), got.StatusCode
	}
	first, _ := ask("GET", 0)
	for node := range 2 {
		if id, got := ask("GET", node); id != first || got != http.StatusAccepted {
			t.Errorf("node %d: %s %d", node, id, got)
		}
	}
	status = http.StatusOK
	if id, got := ask("GET", 1); id != first || got != http.StatusOK {
		t.Errorf("the end: %s %d", id, got)
	}
	if id, _ := ask("GET", 0); id == first {
		t.Error("the next report is not bought")
	}
	one, _ := ask("POST", 0)
	if two, _ := ask("POST", 0); one == two {
		t.Error("the second order is not bought")
	}
}

// SDKs add a query to the URL of a job, such as logs=1. Without a job that is another URL.
func TestJobWithQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := jobSeller(t, func(rw http.ResponseWriter, _ string) {
		rw.Header().Set("Operation-Location", "/jobs/1")
		rw.WriteHeader(http.StatusAccepted)
	})
	order := w.do(w.agent(), proxytest.Request(t, "POST", s.URL+"/jobs", strings.NewReader("{}"))).Header.Get(proxy.HeaderPayment)
	if id := w.get(s.URL + "/jobs/1?logs=1").Paid(t); id != order {
		t.Error("a question with a query is paid anew")
	}
	if id := w.get(s.URL + "/jobs/2?logs=1").Paid(t); id == order {
		t.Error("another job has the same payment")
	}
}

// A resource that an answer names without a job is bought as any other.
func TestFinishedIsNoJob(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{"id":"1"}`, `{"id":"1","status":"done"}`, `{"id":"1","status":{"id":"queued"}}`} {
		w := newWorld(t)
		s := jobSeller(t, func(rw http.ResponseWriter, _ string) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, answer)
		})
		order := w.do(w.agent(), proxytest.Request(t, "POST", s.URL+"/jobs", strings.NewReader("{}"))).Paid(t)
		if w.get(s.URL+"/jobs/1").Paid(t) == order {
			t.Errorf("%s names a job", answer)
		}
	}
}

// A job's payment that has expired is not replaced, and the reason says so. Elsewhere and after a while all is as ever.
func TestJobWhosePaymentHasExpired(t *testing.T) {
	t.Parallel()
	clock := &ticking{}
	w := newWorld(t, func(o *setup) { o.forward.Clock, o.pay.Clock = clock.now, clock.now })
	s := jobSeller(t, func(rw http.ResponseWriter, _ string) {
		rw.Header().Set("Location", "/jobs/1")
		rw.WriteHeader(http.StatusAccepted)
	})
	order := w.do(w.agent(), proxytest.Request(t, "POST", s.URL+"/jobs", strings.NewReader("{}")))
	id := order.Header.Get(proxy.HeaderPayment)
	w.Closed(id)
	if got := w.do(w.agent(), proxytest.Request(t, "GET", s.URL+"/jobs/2", nil)); got.Header.Get(proxy.HeaderPayment) == id {
		t.Error("another job has the same payment")
	}
	clock.advance(70 * time.Second)
	answers(s, http.StatusOK) // without the payment, which changes nothing
	w.do(w.agent(), proxytest.Request(t, "GET", s.URL+"/jobs/1", nil))
	got := w.do(w.agent(), proxytest.Request(t, "GET", s.URL+"/jobs/1", nil))
	if got.StatusCode != http.StatusPaymentRequired || got.Header.Get("Payment-Required") != "" || !strings.Contains(got.Text, "has expired") || len(w.Payments()) != 2 {
		t.Errorf("%d %q, %d payments", got.StatusCode, got.Text, len(w.Payments()))
	}
	clock.advance(time.Minute)
	if w.do(w.agent(), proxytest.Request(t, "GET", s.URL+"/jobs/1", nil)); len(w.Payments()) != 3 {
		t.Errorf("%d payments", len(w.Payments()))
	}
}

// A seller that asks its client to wait is not contradicted.
func TestSellersRetryAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for said, want := range map[string]string{"90": "90", "1": "5", "": "5", "soon": "5"} {
		s := proxytest.NewSeller(t)
		s.Paid = func(rw http.ResponseWriter, r *http.Request, _ int) {
			rw.Header().Set("Retry-After", said)
			s.WriteChallenge(rw, r, s.Price, "settlement outcome unknown")
		}
		if got := w.get(s.URL + "/x").Header.Get("Retry-After"); got != want {
			t.Errorf("%q became %q, want %q", said, got, want)
		}
	}
}

// answers plays answers to GET requests one after the other, paid or not; "402" asks for the payment if there is none.
func answers(s *proxytest.Seller, statuses ...int) {
	var mu sync.Mutex
	next := func(rw http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPost || len(statuses) == 0 || statuses[0] == http.StatusPaymentRequired && r.Header.Get("Payment-Signature") == "" {
			return false
		}
		status := statuses[0]
		if statuses = statuses[1:]; status == http.StatusPaymentRequired {
			status = http.StatusOK
		}
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, "running")
		return true
	}
	wrap := func(then http.HandlerFunc) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			if !next(rw, r) {
				then(rw, r)
			}
		}
	}
	paid := s.Paid
	s.Challenge = wrap(func(rw http.ResponseWriter, r *http.Request) { s.WriteChallenge(rw, r, s.Price, "") })
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		wrap(func(rw http.ResponseWriter, r *http.Request) { paid(rw, r, n) })(rw, r)
	}
	s.Reuse = wrap(s.Reuse)
}

// A seller answers some questions about a job without the payment, and fails at some. The job stays paid.
func TestJobsAreRememberedAcrossFreeAnswers(t *testing.T) {
	t.Parallel()
	for _, statuses := range [][]int{{503, 200, 402}, {429, 200, 429, 200, 402}, {402, 503, 200, 402}, {200, 200, 402}} {
		for nodes := 1; nodes <= 2; nodes++ {
			t.Run(fmt.Sprint(statuses, nodes), func(t *testing.T) {
				t.Parallel()
				f := newFollower(t, nodes)
				s := jobSeller(t, func(rw http.ResponseWriter, _ string) {
					rw.Header().Set("Location", "/jobs/1")
					rw.WriteHeader(http.StatusAccepted)
				})
				answers(s, statuses...)
				id := f.w.do(f.proxies[0], proxytest.Request(t, "POST", s.URL+"/jobs", strings.NewReader("{}"))).Header.Get(proxy.HeaderPayment)
				for i := range statuses {
					got := f.w.do(f.proxies[(i+1)%nodes], proxytest.Request(t, "GET", s.URL+"/jobs/1", nil))
					if statuses[i] == http.StatusPaymentRequired && (got.Text != "running" || got.Header.Get(proxy.HeaderPayment) != id) {
						t.Errorf("%d: %d %q", i, got.StatusCode, got.Text)
					}
				}
				if n := len(f.w.Payments()); n != 1 {
					t.Errorf("%d payments of one job", n)
				}
				// Nor does what its seller answers keep the key from buying elsewhere at the site.
				if got := f.w.do(f.proxies[0], proxytest.Request(t, "GET", s.URL+"/other", nil)); got.Header.Get(proxy.HeaderPayment) == "" {
					t.Errorf("another page: %d %q", got.StatusCode, got.Text)
				}
			})
		}
	}
}

// A seller answers a GET with 202, and asks for it again: by its own URL, or by Retry-After alone. It is done much
// later than the authorization ends. That is one purchase, and the next one is another.
func TestJobAtItsOwnURL(t *testing.T) {
	t.Parallel()
	for name, ordered := range map[string]func(http.Header) (body string){
		"Location":    func(h http.Header) string { h.Set("Location", "/report"); return "" },
		"poll_url":    func(h http.Header) string { h.Set("Content-Type", "application/json"); return `{"poll_url":"/report"}` },
		"Retry-After": func(h http.Header) string { h.Set("Retry-After", "30"); return "" },
	} {
		for nodes := 1; nodes <= 2; nodes++ {
			t.Run(fmt.Sprint(name, nodes), func(t *testing.T) {
				t.Parallel()
				f, s := newFollower(t, nodes), proxytest.NewSeller(t)
				var mu sync.Mutex
				asked := 0
				s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
					mu.Lock()
					defer mu.Unlock()
					if asked++; asked == 20 {
						_, _ = io.WriteString(rw, "report")
						return
					}
					s.Receipt(rw, n)
					body := ordered(rw.Header())
					rw.WriteHeader(http.StatusAccepted)
					_, _ = io.WriteString(rw, body)
				}
				ask := func(i int) proxytest.Answer {
					return f.w.do(f.proxies[i%nodes], proxytest.Request(t, "GET", s.URL+"/report", nil))
				}
				for i := range 19 {
					if got := ask(i); got.StatusCode != http.StatusAccepted {
						t.Fatalf("%d: %d %q", i, got.StatusCode, got.Text)
					}
					f.clock.advance(30 * time.Second)
				}
				if got := ask(1); got.Text != "report" || len(f.w.Payments()) != 1 {
					t.Errorf("%d %q, %d payments", got.StatusCode, got.Text, len(f.w.Payments()))
				}
				f.clock.advance(61 * time.Second)
				if nodes > 1 { // the others have not seen the end
					f.clock.advance(5 * time.Minute)
				}
				if got := ask(0); got.StatusCode != http.StatusAccepted || len(f.w.Payments()) != 2 {
					t.Errorf("the next purchase: %d %q, %d payments", got.StatusCode, got.Text, len(f.w.Payments()))
				}
			})
		}
	}
}

// The place where a job was ordered takes the next order, whatever an answer to a question names.
func TestOrdersAreNoQuestions(t *testing.T) {
	t.Parallel()
	f := newFollower(t, 1)
	s := jobSeller(t, func(rw http.ResponseWriter, _ string) {
		rw.Header().Set("Location", "/jobs/1")
		rw.WriteHeader(http.StatusAccepted)
	})
	s.Reuse = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"job_url":"/jobs"}`)
	}
	order := func() string {
		return f.w.do(f.proxies[0], proxytest.Request(t, "POST", s.URL+"/jobs", strings.NewReader("{}"))).Header.Get(proxy.HeaderPayment)
	}
	id := order()
	if got := f.w.do(f.proxies[0], proxytest.Request(t, "GET", s.URL+"/jobs/1", nil)); got.Paid(t) != id {
		t.Errorf("%q", got.Text)
	}
	if order() == id {
		t.Error("an order is taken for a question")
	}
}

// Questions about a job may have proofs of their client's that count once, like other requests.
func TestQuestionsWithProofs(t *testing.T) {
	t.Parallel()
	f := newFollower(t, 1)
	s := jobSeller(t, func(rw http.ResponseWriter, _ string) {
		rw.Header().Set("Location", "/jobs/1")
		rw.WriteHeader(http.StatusAccepted)
	})
	var used sync.Map
	proven := func(then http.HandlerFunc) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			if _, seen := used.LoadOrStore(r.Header.Get("DPoP"), true); seen && r.Method == http.MethodGet {
				rw.WriteHeader(http.StatusUnauthorized)
				return
			}
			then(rw, r)
		}
	}
	s.Challenge = proven(func(rw http.ResponseWriter, r *http.Request) { s.WriteChallenge(rw, r, s.Price, "") })
	s.Reuse = proven(s.Reuse)
	id := f.w.do(f.proxies[0], proxytest.Request(t, "POST", s.URL+"/jobs", strings.NewReader("{}"))).Header.Get(proxy.HeaderPayment)
	ask := func(proof string) proxytest.Answer {
		return f.w.do(f.proxies[0], proxytest.Request(t, "GET", s.URL+"/jobs/1", nil, "DPoP", proof))
	}
	if got := ask("1"); got.StatusCode != http.StatusUnauthorized {
		t.Fatalf("%d %q", got.StatusCode, got.Text)
	}
	if got := ask("2"); got.Text != "running" || got.Paid(t) != id || len(f.w.Payments()) != 1 {
		t.Errorf("%d %q", got.StatusCode, got.Text)
	}
}
