package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/purserpay/purser/internal/exposure"
)

// exposed returns the finding of a check on the user's own configuration, which the scratch copy does
// not show; nil without one.
func (w *world) exposed(check string) *exposure.Finding {
	for _, f := range exposure.Find(w.config, func(name string) string { return w.environ[name] }) {
		if f.Check == check {
			return &f
		}
	}
	return nil
}

// adminEndpoint judges the address of the user's own admin endpoint, without a request.
func adminEndpoint(_ context.Context, e *examination) (outcome, error) {
	f := e.exposed(exposure.CheckAdmin)
	switch at := e.main.yours.admin; {
	case f != nil && f.Fatal:
		return held("your admin endpoint takes TCP: purser does not start with it, and takes no orders there (admin)"), nil
	case f != nil:
		return off("%s; a socket would be safe (admin)", f.Says), nil
	case at == "off":
		return held("your admin endpoint is off"), nil
	default:
		return held("your admin endpoint is a socket: %s", at), nil
	}
}

// foreignHosts asks the proxy without a key for a host that no site has. The proxy must refuse it. The
// scratch copy has no host names, so those of the user's configuration are judged without a request.
func foreignHosts(ctx context.Context, e *examination) (outcome, error) {
	const tries = "a request for a foreign host without a key"
	if f := e.exposed(exposure.CheckHosts); f != nil {
		return failed([]string{f.Error()}, tries), nil
	}
	if e.main.yours.standin {
		return off("programs of this machine need no key (PURSER_STANDIN)"), nil
	}
	var story []string
	for _, scheme := range []string{"http", "https"} {
		resp, err := e.through(ctx, nil, scheme+"://foreign.example:8443/", nil)
		switch { // the client reports the answer to a CONNECT as an error
		case err != nil && strings.Contains(err.Error(), http.StatusText(http.StatusProxyAuthRequired)):
		case err != nil:
			return outcome{}, err
		case resp.code != http.StatusProxyAuthRequired:
			story = append(story, fmt.Sprintf("%s: %s", scheme, resp.status))
		}
	}
	return verdict(story, tries, "the proxy asks for a key"), nil
}

// openProxy makes a key as a client behind another proxy, and asks the proxy for a server with it. To
// purser, such a client is not of this machine.
func openProxy(ctx context.Context, e *examination) (outcome, error) {
	const tries = "a stranger's key at the proxy"
	if f := e.exposed(exposure.CheckRegistration); f != nil {
		return failed([]string{f.Error()}, tries), nil
	}
	text, err := ask(ctx, plain, http.MethodPost, e.main.url()+"/api-keys", strings.NewReader(`{"label":"stranger"}`))
	if err != nil {
		if e.main.yours.registrationOff {
			return held("%s: strangers make no keys, registration is off", tries), nil
		}
		return outcome{}, err
	}
	var made struct{ Key string }
	if err := json.Unmarshal(text, &made); err != nil {
		return outcome{}, fmt.Errorf("a new key: %w", err)
	}
	d, err := newDecoy(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = d.Close() }()
	resp, err := e.through(ctx, url.User(made.Key), fmt.Sprintf("http://127.0.0.1:%d/", d.Port), http.Header{"X-Forwarded-For": {"203.0.113.1"}})
	if err != nil {
		return outcome{}, err
	}
	var story []string
	if resp.code != http.StatusForbidden || len(d.seen()) > 0 {
		story = append(story, fmt.Sprintf("GET: %s, and %d requests got through", resp.status, len(d.seen())))
	}
	return verdict(story, tries, "403"), nil
}
