package identity_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/sandbox/identity"
)

const (
	redirect = "http://127.0.0.1:8402/dashboard/callback"
	// verifier and challenge come from RFC 7636, appendix B.
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// world is a provider, and a browser that follows no redirects.
type world struct {
	*testing.T
	*identity.Provider
	url   string
	ahead atomic.Int64
	http  *http.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	var err error
	w.Provider, err = identity.New(identity.Options{
		ClientID: "purser", ClientSecret: "secret", Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.At(w.url)
	return w
}

func request(change ...string) url.Values {
	v := url.Values{
		"client_id": {"purser"}, "redirect_uri": {redirect}, "response_type": {"code"}, "scope": {"openid email"}, "state": {"s&s"},
		"nonce": {"n"}, "code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}
	for i := 0; i < len(change); i += 2 {
		v.Set(change[i], change[i+1])
	}
	return v
}

// do makes a request and returns status, target of a redirect, and body.
func (w *world) do(method, path string, form url.Values, header ...string) (int, *url.URL, string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, w.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := w.http.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	to, _ := resp.Location()
	return resp.StatusCode, to, string(text)
}

// code presses the button.
func (w *world) code() string {
	w.Helper()
	status, to, text := w.do("POST", "/authorize?"+request().Encode(), url.Values{"answer": {"yes"}})
	if status != 303 || to.Query().Get("state") != "s&s" || to.Query().Get("iss") != w.url {
		w.Fatalf("%d %s %s", status, to, text)
	}
	return to.Query().Get("code")
}

func grant(code string, change ...string) url.Values {
	v := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier},
		"client_id": {"purser"}, "client_secret": {"secret"},
	}
	for i := 0; i < len(change); i += 2 {
		v.Set(change[i], change[i+1])
	}
	return v
}

// A request of a careless client is refused. A careful client gets a code that works once.
func TestStrict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		change []string
		status int
		err    string
	}{
		"fine":                     {nil, 200, ""},
		"client":                   {[]string{"client_id", "x"}, 400, ""},
		"redirect URL":             {[]string{"redirect_uri", "https://evil.example/dashboard/callback"}, 400, ""},
		"redirect URL with a tail": {[]string{"redirect_uri", redirect + "/x"}, 400, ""},
		"redirect URL in disguise": {[]string{"redirect_uri", "http://127.0.0.1@evil.example/dashboard/callback"}, 400, ""},
		"response type":            {[]string{"response_type", "token"}, 303, "unsupported_response_type"},
		"no openid":                {[]string{"scope", "email"}, 303, "invalid_scope"},
		"no PKCE":                  {[]string{"code_challenge", ""}, 303, "invalid_request"},
		"plain PKCE":               {[]string{"code_challenge_method", "plain"}, 303, "invalid_request"},
		"no state":                 {[]string{"state", ""}, 303, "invalid_request"},
		"nobody to ask":            {[]string{"prompt", "none"}, 303, "login_required"},
	} {
		status, to, text := w.do("GET", "/authorize?"+request(c.change...).Encode(), nil)
		if status != c.status || c.err != "" && to.Query().Get("error") != c.err || (status == 200) != strings.Contains(text, "Sign in as the sandbox&#39;s user") && (status == 200) != strings.Contains(text, "Sign in as the sandbox's user") {
			t.Errorf("%s: %d %v %s", name, status, to, text)
		}
	}
	for name, change := range map[string][]string{
		"verifier": {"code_verifier", "x"}, "no verifier": {"code_verifier", ""}, "redirect URL": {"redirect_uri", "http://127.0.0.1:1/dashboard/callback"},
		"secret": {"client_secret", "x"}, "client": {"client_id", "x"}, "grant": {"grant_type", "password"}, "code": {"code", "x"},
	} {
		if status, _, text := w.do("POST", "/token", grant(w.code(), change...)); status < 400 || strings.Contains(text, "id_token") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	code := w.code()
	status, _, text := w.do("POST", "/token", grant(code))
	var tokens struct {
		ID     string `json:"id_token"`
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(text), &tokens); status != 200 || err != nil || strings.Count(tokens.ID, ".") != 2 {
		t.Fatalf("%d %s", status, text)
	}
	if status, _, text := w.do("POST", "/token", grant(code)); status != 400 || !strings.Contains(text, "invalid_grant") {
		t.Errorf("twice: %d %s", status, text)
	}
	if status, _, text := w.do("GET", "/userinfo", nil, "Authorization", "Bearer "+tokens.Access); status != 200 || !strings.Contains(text, `"sub":"sandbox"`) {
		t.Errorf("userinfo: %d %s", status, text)
	}
	late := w.code()
	w.ahead.Add(int64(10 * time.Minute))
	if status, _, _ := w.do("POST", "/token", grant(late)); status != 400 {
		t.Errorf("late: %d", status)
	}
	if status, _, _ := w.do("GET", "/userinfo", nil, "Authorization", "Bearer "+tokens.Access); status != 401 {
		t.Errorf("old access token: %d", status)
	}
}

// Pages of other sites cannot sign a visitor in, nor can other host names that lead here.
func TestOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}, {"Host", "rebound.example"}} {
		if status, _, _ := w.do("POST", "/authorize?"+request().Encode(), url.Values{"answer": {"yes"}}, header...); status != 403 && status != 421 {
			t.Errorf("%v: %d", header, status)
		}
	}
	status, to, _ := w.do("POST", "/authorize?"+request().Encode(), url.Values{"answer": {"no"}})
	if status != 303 || to.Query().Get("error") != "access_denied" || to.Query().Has("code") {
		t.Errorf("cancelled: %d %s", status, to)
	}
}
