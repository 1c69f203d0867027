package caddymodule

import (
	"context"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"

	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
)

// spender is the key that a request pays with, and its task.
type spender struct{ keyID, secret, task string }

var (
	// requestPlaceholder finds the placeholders that each request has its own value for.
	requestPlaceholder = regexp.MustCompile(`\{http\.[^{}]+\}`)
	// keyPlaceholder matches those that may hold a key. Servers log URLs, and books keep them.
	keyPlaceholder = regexp.MustCompile(`^\{http\.(request\.header\.([^{}]+)|vars\.[^{}]+|auth\.user\.[^{}]+)\}$`)
)

// perRequest reads an option in which the placeholders of requests stay.
func perRequest(o setting.Option, given string) (string, error) {
	if !requestPlaceholder.MatchString(given) {
		return o.Value(given)
	}
	v, err := caddy.NewReplacer().ReplaceFunc(given, func(name string, value any) (any, error) {
		if stays := "{" + name + "}"; requestPlaceholder.MatchString(stays) {
			return stays, nil
		}
		return environment.Referenced(name, value)
	})
	if err == nil {
		err = environment.CheckReferences(given, v)
	}
	if err != nil {
		return "", o.Errorf("%w", err)
	}
	return strings.TrimSpace(v), nil
}

// resolveKey reads where the key of a door comes from: a secret, or a placeholder of requests.
func (o DoorOptions) resolveKey(d *payingDoor) (err error) {
	if !requestPlaceholder.MatchString(o.Key) {
		d.secret, err = doorKeyOption.APIKey(o.Key, o.KeyFile)
		return err
	}
	from := keyPlaceholder.FindStringSubmatch(o.Key)
	switch {
	case from == nil:
		return doorKeyOption.Errorf("%s: a key comes from a header, a variable or a login: {http.request.header.NAME}, {http.vars.NAME} "+
			"or {http.auth.user.NAME}", o.Key)
	case o.KeyFile != "":
		return doorKeyOption.Errorf("%s is set as well: keep one", doorKeyOption.File())
	}
	d.keyFrom, d.keyHeader = o.Key, http.CanonicalHeaderKey(from[2])
	return nil
}

// RequestHeaderOps implements reverseproxy.RequestHeaderOpsTransport. The header that a key came in goes
// no further, and into no log of the reverse proxy's.
func (h *Transport) RequestHeaderOps() *headers.HeaderOps {
	ops := h.HTTPTransport.RequestHeaderOps()
	if h.door.keyHeader == "" {
		return ops
	}
	if ops == nil {
		ops = new(headers.HeaderOps)
	}
	ops.Delete = append(ops.Delete, h.door.keyHeader)
	return ops
}

// spender finds who pays for a request. No placeholder that is empty leads to another key.
func (h *Transport) spender(ctx context.Context) (s spender, no *proxy.Refusal) {
	s = spender{keyID: h.keyID, secret: h.secret, task: h.door.task}
	repl, _ := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if repl == nil {
		repl = caddy.NewReplacer()
	}
	if h.door.taskVaries {
		label, err := repl.ReplaceOrErr(h.door.task, true, true)
		if err != nil { // it is empty
			label = ""
		}
		if s.task = strings.TrimSpace(label); s.task != "" && !policy.ValidTask(s.task) {
			no = &proxy.Refusal{Status: http.StatusBadRequest, Reason: proxy.ReasonTask, Text: "A task label is 1 to 64 characters of A-Z a-z 0-9 . _ -"}
		}
	}
	if h.door.keyFrom != "" && no == nil {
		value, _ := repl.ReplaceOrErr(h.door.keyFrom, true, true) // "" with an error
		address, _ := caddyhttp.GetVar(ctx, caddyhttp.ClientIPVarKey).(string)
		peer, _ := netip.ParseAddr(address)
		var key pay.Key
		key, s.secret, no = h.logins.Bearer(ctx, peer.Unmap(), value)
		s.keyID = key.ID
	}
	if no != nil {
		metrics.Process.Refused.WithLabelValues(no.Reason).Inc()
		h.log.Info("request refused", "status", no.Status, "reason", no.Reason, "cause", no.Cause)
	}
	return s, no
}

// hideKey sees to it that neither the server's logs nor a budget that was never set make a key of requests
// unsafe.
func (h *Transport) hideKey() error {
	if h.door.keyHeader == "" || h.server == nil {
		return nil
	}
	if !veil(h.server, h.door.keyHeader) {
		return doorKeyOption.Errorf("%s: in a named route it would be in the server's logs", h.door.keyFrom)
	}
	return nil
}

// checkSpending refuses a door whose clients all spend with keys that they do not have themselves, without a
// budget.
func (h *Transport) checkSpending(key pay.Key) error {
	if h.door.keyHeader != "" {
		return nil
	}
	if h.door.keyFrom != "" {
		key = pay.Key{ID: h.door.keyFrom}
	}
	return h.app.checkBudget(h.listen(), key)
}
