package attacks

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/loopback"
)

func doorAttacks() []attack {
	return []attack{
		{group: doors, name: "private-addresses", tries: "the agent is sent to the cloud's metadata and to private networks", run: privateAddresses, proxied: true},
		{group: doors, name: "own-listeners", tries: "the agent is sent to purser's own listeners and to Caddy's admin endpoint", run: ownListeners, proxied: true},
		{group: doors, name: "redirects", tries: "the seller redirects the question, or the payment, to a thief", holds: "no payment follows", plays: withSeller(
			hostile.ProxyDoor, bare, hostile.Redirects, hostile.RedirectsFirst,
		)},
		{group: doors, name: "key-to-seller", tries: "the seller looks for the agent's key in what reaches it", run: keyToSeller, proxied: true},
		{group: doors, name: "no-key", tries: "somebody without a key, or with a wrong one, spends through the proxy", run: noKey, proxied: true},
		{group: doors, name: "rebinding", tries: "a page in a browser gets to the API by a name of its own (DNS rebinding)", run: rebinding},
		{group: doors, name: "cross-site", tries: "a page in a browser posts to the API", run: crossSite},
		{group: doors, name: "config-secrets", tries: "GET /config/ is searched for secrets", run: configSecrets},
		{group: doors, name: "foreign-hosts", tries: "the agent asks the proxy for a host that is none of yours, and gets an empty 200", run: foreignHosts, proxied: true},
		{group: doors, name: "open-proxy", tries: "a stranger makes a key and uses the proxy to get elsewhere", run: openProxy, proxied: true},
		{group: doors, name: "admin-endpoint", tries: "an agent on this machine reaches your admin endpoint", run: adminEndpoint},
		{group: doors, name: "secrets-in-logs", tries: "everything that purser logged is searched for keys, secrets and payments", run: secretsInLogs, last: true},
	}
}

// decoy is a server on loopback that records the headers of the requests it gets.
type decoy struct {
	*loopback.Server

	mu     sync.Mutex
	visits []http.Header
}

// newDecoy starts a decoy. The caller must call Close.
func newDecoy(ctx context.Context) (d *decoy, err error) {
	d = &decoy{}
	d.Server, err = loopback.Serve(ctx, loopback.Options{Name: "decoy"}, d)
	return d, err
}

func (d *decoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	d.visits = append(d.visits, r.Header.Clone())
	d.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (d *decoy) seen() []http.Header {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.visits)
}

// through requests a URL through the proxy as user; nil sends no credentials.
func (e *examination) through(ctx context.Context, user *url.Userinfo, target string, header http.Header) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return answer{}, err
	}
	maps.Copy(r.Header, header)
	return send(proxied(e.main, user), r)
}

// proxied returns a client that asks through a purser's proxy as user.
func proxied(p *purser, user *url.Userinfo) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: p.proxy, User: user}),
		},
		CheckRedirect: plain.CheckRedirect,
	}
}

// answer holds the status and header of an answer.
type answer struct {
	code   int
	status string
	header http.Header
}

// send makes a request and discards the body of the answer.
func send(client *http.Client, r *http.Request) (answer, error) {
	resp, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return answer{resp.StatusCode, resp.Status, resp.Header}, err
}

// refusedBy returns "" when the proxy refused the address, or says what it did instead.
func (e *examination) refusedBy(ctx context.Context, user *url.Userinfo, target string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	resp, err := e.through(ctx, user, target, nil)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "GET " + target + ": it was tried", nil
	case err != nil:
		return "", err
	case resp.code != http.StatusForbidden || !strings.HasPrefix(resp.header.Get("Purser-Error"), "deny-"):
		return fmt.Sprintf("GET %s: %s %s", target, resp.status, resp.header.Get("Purser-Error")), nil
	}
	return "", nil
}

// deafPort is a port without a service. If the guard fails, no service is read.
const deafPort = "65533"

// specials lists addresses that no agent needs.
var specials = []string{
	"169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "168.63.129.16", "192.0.0.192",
	"10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "[fd12:3456::1]", "[fe80::1]", "[::ffff:10.0.0.1]",
}

// privateAddresses requests this machine by an address that the guard must refuse; a decoy listens
// there. Only when the guard refuses that one are the real private addresses requested.
func privateAddresses(ctx context.Context, e *examination) (outcome, error) {
	d, err := newDecoy(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = d.Close() }()
	user := url.User(e.probe.customer.Key)
	wrong, err := e.refusedBy(ctx, user, fmt.Sprintf("http://0.0.0.0:%d/", d.Port))
	if err != nil {
		return outcome{}, err
	}
	const tries = "the cloud's metadata and private networks through the proxy"
	if wrong != "" || len(d.seen()) > 0 {
		return failed([]string{wrong, "what 0.0.0.0 leads to was reached: the others were not tried"}, tries), nil
	}
	var story []string
	tried, allowed := 0, 0
	for _, host := range specials {
		ip := netip.MustParseAddr(strings.Trim(host, "[]")).Unmap()
		if slices.ContainsFunc(e.main.yours.allowed, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			allowed++
			continue
		}
		tried++
		wrong, err := e.refusedBy(ctx, user, "http://"+net.JoinHostPort(strings.Trim(host, "[]"), deafPort)+"/")
		if err != nil {
			return outcome{}, err
		}
		if wrong != "" {
			story = append(story, wrong)
		}
	}
	switch {
	case len(story) > 0:
		return failed(story, tries), nil
	case tried == 0:
		return off("all of them are allowed (PURSER_ALLOW_ADDRESSES)"), nil
	case allowed > 0:
		return held("%s: refused (%d addresses; %d more you allow)", tries, tried, allowed), nil
	}
	return held("%s: refused (%d addresses)", tries, tried), nil
}

// ownListeners requests purser's other listeners, and the default address of Caddy's admin
// endpoint.
func ownListeners(ctx context.Context, e *examination) (outcome, error) {
	targets := []string{"http://127.0.0.1:2019/config/", "http://[::1]:2019/config/"}
	for _, l := range e.main.listeners {
		if l != e.main.proxy && l != e.main.api {
			targets = append(targets, "http://"+l+"/")
		}
	}
	var story []string
	for _, target := range targets {
		wrong, err := e.refusedBy(ctx, url.User(e.probe.customer.Key), target)
		if err != nil {
			return outcome{}, err
		}
		if wrong != "" {
			story = append(story, wrong)
		}
	}
	const tries = "purser's own listeners and Caddy's admin endpoint through the proxy"
	return verdict(story, tries, "refused (%d addresses)", len(targets)), nil
}

// keyToSeller searches the headers that reach a seller for the agent's key.
func keyToSeller(ctx context.Context, e *examination) (outcome, error) {
	d, err := newDecoy(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = d.Close() }()
	key := e.probe.customer.Key
	_, err = e.through(ctx, url.UserPassword(key, "a-task"), fmt.Sprintf("http://127.0.0.1:%d/", d.Port), http.Header{
		"X-Api-Key": {key}, "Authorization": {"Bearer " + key}, "Purser-Payment": {"forged"},
	})
	if err != nil {
		return outcome{}, err
	}
	seen := d.seen()
	if len(seen) == 0 {
		return outcome{}, errors.New("the request did not get to the seller")
	}
	var story []string
	for _, h := range seen {
		for name, values := range h {
			for _, v := range values {
				if strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "Purser-") || strings.Contains(v, key) ||
					strings.Contains(v, base64.StdEncoding.EncodeToString([]byte(key))) {
					story = append(story, "the seller got the header "+name)
				}
			}
		}
	}
	slices.Sort(story)
	return verdict(slices.Compact(story), "the agent's key in what the seller gets", "not there"), nil
}

// noKey spends without credentials, and with an unknown key.
func noKey(ctx context.Context, e *examination) (outcome, error) {
	if e.main.yours.standin {
		return off("programs of this machine spend without a key (PURSER_STANDIN)"), nil
	}
	d, err := newDecoy(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = d.Close() }()
	var story []string
	for _, user := range []*url.Userinfo{nil, url.User("pk_00000000000000000000")} {
		resp, err := e.through(ctx, user, fmt.Sprintf("http://127.0.0.1:%d/", d.Port), nil)
		if err != nil {
			return outcome{}, err
		}
		if resp.code != http.StatusProxyAuthRequired {
			story = append(story, fmt.Sprintf("with user %q: %s", user, resp.status))
		}
	}
	if n := len(d.seen()); n > 0 {
		story = append(story, fmt.Sprintf("%d requests got to the seller", n))
	}
	return verdict(story, "no key, or a wrong one, at the proxy", "407"), nil
}

// browse makes a request to the API as a browser does.
func (e *examination) browse(ctx context.Context, method, path, host string, header http.Header) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, e.main.url()+path, strings.NewReader("{}"))
	if err != nil {
		return answer{}, err
	}
	maps.Copy(r.Header, header)
	r.Host = host // empty means the address
	return send(plain, r)
}

func rebinding(ctx context.Context, e *examination) (outcome, error) {
	resp, err := e.browse(ctx, http.MethodGet, "/health", "attacker.example", nil)
	if err != nil {
		return outcome{}, err
	}
	var story []string
	if resp.code != http.StatusMisdirectedRequest {
		story = append(story, "GET /health with Host attacker.example: "+resp.status)
	}
	return verdict(story, "the API by a foreign name (DNS rebinding)", "refused"), nil
}

func crossSite(ctx context.Context, e *examination) (outcome, error) {
	var story []string
	for _, h := range []http.Header{
		{"Origin": {"https://attacker.example"}, "Sec-Fetch-Site": {"cross-site"}, "Content-Type": {"text/plain"}},
		{"Origin": {"https://attacker.example"}, "Content-Type": {"text/plain"}},
	} {
		resp, err := e.browse(ctx, http.MethodPost, "/api-keys", "", h)
		if err != nil {
			return outcome{}, err
		}
		if resp.code != http.StatusForbidden {
			story = append(story, "POST /api-keys from https://attacker.example: "+resp.status)
		}
	}
	return verdict(slices.Compact(story), "a POST to the API by another site's page", "refused"), nil
}

func configSecrets(ctx context.Context, e *examination) (outcome, error) {
	text, err := e.main.operator(ctx, http.MethodGet, "/config/", nil)
	if err != nil {
		return outcome{}, err
	}
	return verdict(leaks("GET /config/", string(text), e.secretsOf(e.main)), "secrets in GET /config/", "none"), nil
}

// leaks names the secrets that a text contains, by their first characters.
func leaks(where, text string, secrets []string) (story []string) {
	for _, one := range secrets {
		for _, form := range []string{one, base64.StdEncoding.EncodeToString([]byte(one + ":")), base64.StdEncoding.EncodeToString([]byte(one))} {
			if strings.Contains(text, form) {
				story = append(story, fmt.Sprintf("%s has the secret that begins with %.3s", where, one))
				break
			}
		}
	}
	return story
}

// inHeader matches text that may be the value of a payment header.
var inHeader = regexp.MustCompile(`eyJ[A-Za-z0-9+/]{200,}={0,2}`)

func secretsInLogs(_ context.Context, e *examination) (outcome, error) {
	var story []string
	size := 0
	for _, p := range e.running() {
		text := p.said()
		size += len(text)
		name := "the log of " + filepath.Base(p.dir)
		secrets := e.secretsOf(p)
		key, err := os.ReadFile(filepath.Join(p.dir, "data", "master.key"))
		if err != nil {
			return outcome{}, err
		}
		story = append(story, leaks(name, text, append(secrets, strings.TrimSpace(string(key))))...)
		for _, value := range inHeader.FindAllString(text, -1) {
			if plain, err := base64.StdEncoding.DecodeString(value); err == nil && strings.Contains(string(plain), `"signature"`) {
				story = append(story, name+" has a payment that could be spent")
				break
			}
		}
	}
	return verdict(story, "keys, secrets and payments in what purser logged", "none in %d kB", size>>10), nil
}
