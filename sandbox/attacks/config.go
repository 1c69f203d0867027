package attacks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/purserpay/purser/internal/exposure"
	"github.com/purserpay/purser/internal/options"
)

// Change names a difference between the scratch installation and the user's own.
type Change struct {
	What string `json:"what"`
	// Scratch holds the scratch value, and Yours the configured one. Both are in words, without
	// secrets.
	Scratch string `json:"scratch"`
	Yours   string `json:"yours,omitempty"`
}

// setup is a scratch installation that is ready to start.
type setup struct {
	dir     string
	socket  string // of its admin endpoint
	config  []byte
	environ []string
	// api and proxy hold the addresses of its doors, host:port. proxy is empty without a proxy.
	api, proxy string
	listeners  []string // all of them
	// yours holds the user's settings that the scratch installation does not show.
	yours   yours
	changes []Change
	key     string   // PURSER_KEY, or ""
	secrets []string // secrets of the scratch installation, which must not leak
}

// yours holds facts about the user's own installation.
type yours struct {
	admin   string // address of the admin endpoint; empty means Caddy's default
	standin bool
	keyRate int            // keys that one address may make in a minute; 0: no bound
	allowed []netip.Prefix // special addresses that the proxy may dial
	rpc     bool
	// registrationOff reports that POST /api-keys is off. exposed lists API addresses that other
	// machines can reach.
	registrationOff bool
	exposed         []string
	// failures bounds the failed payments of a key in a minute and in a day; 0: no bound.
	failures [2]int
	quotes   int  // that a key may ask for in a minute; 0: no bound
	settles  bool // a facilitator is configured
	external string
}

// object is a JSON object of a configuration.
type object = map[string]any

// child returns the object at a path of names. It makes missing objects.
func child(o object, names ...string) object {
	for _, name := range names {
		next, ok := o[name].(object)
		if !ok {
			next = object{}
			o[name] = next
		}
		o = next
	}
	return o
}

// walk visits every object in a value, outer objects first.
func walk(v any, visit func(object)) {
	switch v := v.(type) {
	case object:
		visit(v)
		for _, inner := range v {
			walk(inner, visit)
		}
	case []any:
		for _, inner := range v {
			walk(inner, visit)
		}
	}
}

// text returns a member of an object as an option has it, or "".
func text(o object, name string) string { return options.TextOf(o[name]) }

// Names of purser's handlers and options in a configuration.
const (
	proxyHandler = "purser_proxy"
	apiHandler   = "purser_api"
	upstreamDoor = "purser_upstream"
	scratchAPI   = "purser_attacks" // the server that is added when no server has the API
)

// scratch turns a configuration into a scratch installation in dir.
func scratch(config []byte, environ environment, dir string, w addresses) (*setup, error) {
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.UseNumber() // a float would lose digits of durations
	var root object
	if err := decoder.Decode(&root); err != nil || root == nil {
		return nil, errors.Join(errors.New("the configuration is no JSON object"), err)
	}
	s := &setup{dir: dir, socket: w.socket}
	s.yours = factsOf(root, environ)
	s.admin(root)
	s.logging(root)
	root["storage"] = object{"module": "file_system", "root": filepath.Join(dir, "storage")}
	apps := child(root, "apps")
	s.apps(apps)
	s.purser(child(apps, "purser"), environ)
	if err := s.servers(child(apps, "http"), w.ports); err != nil {
		return nil, err
	}
	var err error
	if s.config, err = json.Marshal(root); err != nil {
		return nil, err
	}
	s.environment(environ, w)
	s.noteChanges(environ)
	return s, nil
}

// addresses holds the addresses of the scratch world around an installation.
type addresses struct {
	facilitator, rpc string
	socket           string // of the admin endpoint
	ports            func() (int, error)
}

func (s *setup) changed(what, scratch, yours string) {
	s.changes = append(s.changes, Change{what, scratch, yours})
}

// factsOf reads the facts about the user's installation from its configuration.
func factsOf(root object, environ environment) yours {
	var y yours
	if admin, ok := root["admin"].(object); ok {
		if y.admin = text(admin, "listen"); admin["disabled"] == true {
			y.admin = "off"
		}
	}
	app, _ := child(root, "apps")["purser"].(object)
	y.standin = environ.or(text(app, "standin"), "PURSER_STANDIN") == "loopback"
	y.rpc = hasRPC(app, environ)
	facilitator, _ := app["facilitator"].(object)
	y.settles = environ.or(text(facilitator, "url"), "PURSER_FACILITATOR_URL") != ""
	wallets, _ := app["wallets"].(object)
	if y.external = environ.or(text(wallets, "module"), "PURSER_WALLETS"); y.external == "local" {
		y.external = ""
	}
	y.keyRate = 60
	y.registrationOff = environ.or(text(app, "registration"), "PURSER_REGISTRATION") == "off"
	y.failures = [2]int{
		number(environ.or(text(app, "failures_per_minute"), "PURSER_FAILURES_PER_MINUTE"), 100),
		number(environ.or(text(app, "failures_per_day"), "PURSER_FAILURES_PER_DAY"), 3000),
	}
	y.quotes = number(environ.or(text(app, "quotes_per_minute"), "PURSER_QUOTES_PER_MINUTE"), 300)
	y.exposed = exposedIn(child(root, "apps", "http", "servers"))
	var allow []string
	walk(root["apps"], func(o object) {
		switch text(o, "handler") {
		case apiHandler:
			y.keyRate = number(environ.or(text(o, "key_rate"), ""), 60)
		case proxyHandler:
			if given := text(o, "allow_addresses"); given != "" {
				allow = append(allow, given)
			}
		}
	})
	if len(allow) == 0 {
		allow = append(allow, "")
	}
	for _, given := range allow {
		for _, cidr := range strings.FieldsFunc(environ.or(given, "PURSER_ALLOW_ADDRESSES"), separates) {
			if p, err := netip.ParsePrefix(cidr); err == nil {
				y.allowed = append(y.allowed, p.Masked())
			}
		}
	}
	return y
}

// hasRPC reports whether a network has an RPC.
func hasRPC(app object, environ environment) bool {
	if app["network"] != nil || environ.or(text(app, "rpc_url"), "PURSER_RPC_URL") != "" || text(app, "rpc_url_file") != "" {
		return true
	}
	for name, value := range environ {
		if value != "" && strings.HasPrefix(name, "PURSER_RPC_URL_") {
			return true
		}
	}
	return false
}

// number parses a bound. It returns unset for "", and 0 for "off".
func number(given string, unset int) int {
	if given == "" {
		return unset
	}
	n, _ := strconv.Atoi(given) // purser refuses any other value at its start
	return n
}

// exposedIn lists the API addresses that other machines can reach.
func exposedIn(servers object) (exposed []string) {
	for _, server := range servers {
		api := false
		walk(server, func(o object) { api = api || text(o, "handler") == apiHandler })
		of, _ := server.(object)
		listen, _ := of["listen"].([]any)
		for _, l := range listen {
			if l, ok := l.(string); ok && api && !exposure.Loopback(l) {
				exposed = append(exposed, l)
			}
		}
	}
	slices.Sort(exposed)
	return exposed
}

func separates(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' }

func (s *setup) adminAddress() string { return "unix/" + s.socket + "|0600" }

func (s *setup) admin(root object) {
	root["admin"] = object{"listen": s.adminAddress(), "config": object{"persist": false}}
}

// logging sends all logs to stderr, where they are read. Filters of the logs stay.
func (s *setup) logging(root object) {
	logging, ok := root["logging"].(object)
	if !ok {
		return
	}
	delete(logging, "sink")
	logs, _ := logging["logs"].(object)
	for _, one := range logs {
		if log, ok := one.(object); ok {
			delete(log, "writer")
		}
	}
}

// apps removes all apps but those that purser needs, because others may reach out to the network.
func (s *setup) apps(apps object) {
	var gone []string
	for name := range apps {
		if !slices.Contains([]string{"http", "pki", "purser"}, name) {
			delete(apps, name)
			gone = append(gone, name)
		}
	}
	if slices.Sort(gone); len(gone) > 0 {
		s.changed("Caddy's apps", "http, pki and purser only", "also "+strings.Join(gone, ", "))
	}
	if pki, ok := apps["pki"].(object); ok {
		authorities, _ := pki["certificate_authorities"].(object)
		for _, one := range authorities {
			if authority, ok := one.(object); ok {
				authority["install_trust"] = false
				delete(authority, "storage")
			}
		}
	}
}

// purser replaces settings that name the user's own data, money and services. Limits, lists and
// times stay.
func (s *setup) purser(app object, environ environment) {
	app["data_dir"] = filepath.Join(s.dir, "data")
	for _, name := range []string{
		"master_key", "master_key_file", "rpc_url", "rpc_url_2", "rpc_url_file", "rpc_url_2_file", "network", "internal_secret", "internal_secret_file", "key", "key_file",
		"oidc_issuer", "oidc_client_id", "oidc_client_secret", "oidc_client_secret_file", "oidc_allow", // no attack signs in
		"webhooks", "webhooks_file", "webhook_secret", "webhook_secret_file", "smtp_url", "smtp_url_file", "mail_from", "mail_to", // nor tells people
	} {
		delete(app, name)
	}
	store, _ := app["store"].(object)
	if name := environ.or(text(store, "module"), "PURSER_STORE"); name != "" && name != "bolt" {
		s.changed("store", "bolt", name)
		store = nil
	}
	kept := object{"module": "bolt"}
	if free, ok := store["min_free"]; ok {
		kept["min_free"] = free
	}
	app["store"] = kept
	app["wallets"] = object{"module": "local"}
	if facilitator, ok := app["facilitator"].(object); ok {
		for _, name := range []string{"url", "key", "key_file", "auth"} {
			delete(facilitator, name)
		}
		if text(facilitator, "module") != "http" {
			app["facilitator"] = object{"module": "http"}
		}
	}
	if networks := environ.or(text(app, "networks"), "PURSER_NETWORKS"); networks != "" &&
		!slices.Contains(strings.FieldsFunc(networks, separates), "base") {
		s.changed("networks", "base", networks)
		app["networks"] = "base"
	}
}

// servers moves the servers to free ports on loopback, without TLS and with any host name.
func (s *setup) servers(app object, port func() (int, error)) error {
	servers := child(app, "servers")
	serves := map[string]string{} // handler → server
	var was []string
	others := 0
	for name, one := range servers {
		server, ok := one.(object)
		if !ok {
			continue
		}
		mine := false
		walk(server, func(o object) {
			delete(o, "spool_dir")
			switch handler := text(o, "handler"); handler {
			case upstreamDoor:
				delete(o, "to")
				mine = true
			case "reverse_proxy":
				withoutService(o)
				others++
			case proxyHandler, apiHandler:
				if old, found := serves[handler]; !found || name < old {
					serves[handler] = name
				}
				mine = true
			}
		})
		listen, _ := server["listen"].([]any)
		for _, l := range listen {
			if l, ok := l.(string); ok {
				was = append(was, l)
			}
		}
		if mine {
			forAnyName(server)
		}
		server["automatic_https"] = object{"disable": true}
		delete(server, "tls_connection_policies")
		plainListeners(server)
	}
	if serves[apiHandler] == "" {
		servers[scratchAPI] = object{
			"automatic_https": object{"disable": true},
			"routes":          []any{object{"handle": []any{object{"handler": apiHandler}}}},
		}
		serves[apiHandler] = scratchAPI
		s.changed("REST API", "on a port of its own, to read the books by", "none")
	}
	at := map[string]string{}
	for name, one := range servers {
		n, err := port()
		if err != nil {
			return err
		}
		at[name] = net.JoinHostPort("127.0.0.1", strconv.Itoa(n))
		if server, ok := one.(object); ok {
			server["listen"] = []any{at[name]}
		}
		s.listeners = append(s.listeners, at[name])
	}
	if others > 0 {
		s.changed("other services", "none: not asked who may come in, nor passed anything on", fmt.Sprintf("%d reverse_proxy", others))
	}
	slices.Sort(was)
	s.changed("listeners", "127.0.0.1, on free ports", strings.Join(was, " "))
	s.api = at[serves[apiHandler]]
	if name := serves[proxyHandler]; name != "" {
		s.proxy = at[name]
	}
	return nil
}

// withoutService replaces a handler that calls one of the user's services, perhaps with a secret. A
// handler that continues after the answer, like forward_auth, continues without it.
func withoutService(handler object) {
	_, goesOn := handler["handle_response"]
	clear(handler)
	if goesOn {
		handler["handler"] = "subroute"
	} else {
		handler["handler"], handler["status_code"] = "static_response", 502
	}
}

// forAnyName removes host matchers, because the scratch copy is reached by address.
func forAnyName(server object) {
	routes, _ := server["routes"].([]any)
	for _, one := range routes {
		route, _ := one.(object)
		matchers, _ := route["match"].([]any)
		for i, m := range matchers {
			if matcher, ok := m.(object); ok {
				delete(matcher, "host")
				if len(matcher) == 0 { // it matches everything, which another matcher of the list may not
					delete(route, "match")
				}
				matchers[i] = matcher
			}
		}
	}
}

// plainListeners removes listener wrappers that expect another protocol than HTTP.
func plainListeners(server object) {
	wrappers, ok := server["listener_wrappers"].([]any)
	if !ok {
		return
	}
	server["listener_wrappers"] = slices.DeleteFunc(wrappers, func(one any) bool {
		wrapper, _ := one.(object)
		return slices.Contains([]string{"tls", "proxy_protocol", "http_redirect"}, text(wrapper, "wrapper"))
	})
}

// noteChanges lists the remaining differences from the user's installation.
func (s *setup) noteChanges(environ environment) {
	s.changed("data", s.dir+", removed at the end", environ.or("", "PURSER_DATA_DIR"))
	s.changed("admin endpoint", "a socket of its own", s.yours.admin)
	if s.yours.external != "" {
		s.changed("wallets", "local, with scratch keys: your signer is not asked", s.yours.external)
	}
	for _, one := range []struct {
		what, without string
		has           bool
	}{
		{"facilitator", "none: payments that purser settles itself are refused", s.yours.settles},
		{"RPC", "none: what nobody tells stays unresolved, and balances are not checked before paying", s.yours.rpc},
	} {
		yours := one.without
		if one.has {
			yours = "not asked"
		}
		s.changed(one.what, "the scratch world's", yours)
	}
	s.changed("keys and secrets", "scratch ones", fmt.Sprintf("%d, not passed on", environ.secrets()))
}
