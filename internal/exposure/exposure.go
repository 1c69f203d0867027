// Package exposure finds what a configuration of Caddy leaves open: protections that the shipped
// Caddyfile has, and that other configurations can miss. It reads a configuration as JSON, before
// anything of it runs.
package exposure

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/options"
)

// Names of the checks, which stay the same over versions.
const (
	CheckAdmin        = "admin"
	CheckHosts        = "hosts"
	CheckRegistration = "registration"
	CheckLogs         = "logs"
	CheckConnections  = "connections"
)

// Finding is something that a configuration leaves open.
type Finding struct {
	Check string
	// Fatal: a purser must not run like this.
	Fatal bool
	Says  string
	Do    string // the way out
}

// Error is the finding as one sentence.
func (f Finding) Error() string { return f.Says + ": " + f.Do }

// Errors joins the findings that a purser must not run with; nil if there are none.
func Errors(found []Finding) error {
	var all []error
	for _, f := range found {
		if f.Fatal {
			all = append(all, fmt.Errorf("purser: %w", f))
		}
	}
	return errors.Join(all...)
}

// Warnings lists the others.
func Warnings(found []Finding) (all []string) {
	for _, f := range found {
		if !f.Fatal {
			all = append(all, f.Error())
		}
	}
	return all
}

// Find examines a configuration. It finds nothing in one without purser.
func Find(config []byte, getenv func(string) string) (found []Finding) {
	c := configuration{getenv: getenv}
	err := json.Unmarshal(config, &c)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
		err = nil // what has another form is skipped, and nothing else
	}
	if err != nil || !c.hasPurser() {
		return nil // a configuration that is none is told of elsewhere
	}
	return slices.Concat(c.admin(), c.hosts(), c.registration(), c.logs(), c.connections())
}

type object = map[string]any

// configuration has the members that are examined.
type configuration struct {
	Admin *struct {
		Disabled bool   `json:"disabled"`
		Listen   string `json:"listen"`
	} `json:"admin"`
	Logging struct {
		Logs map[string]struct {
			Include []string `json:"include"`
			Exclude []string `json:"exclude"`
			Encoder struct {
				Format string         `json:"format"`
				Fields map[string]any `json:"fields"`
			} `json:"encoder"`
			Writer struct {
				Output string `json:"output"`
			} `json:"writer"`
		} `json:"logs"`
	} `json:"logging"`
	Apps struct {
		Purser *struct {
			AdminOverTCP options.Text `json:"admin_over_tcp"`
			Registration options.Text `json:"registration"`
		} `json:"purser"`
		HTTP struct {
			Servers map[string]*server `json:"servers"`
		} `json:"http"`
	} `json:"apps"`

	getenv func(string) string
}

type server struct {
	Listen      []string       `json:"listen"`
	Routes      []any          `json:"routes"`
	NamedRoutes map[string]any `json:"named_routes"`
	Wrappers    []wrapper      `json:"listener_wrappers"`
	Logs        *struct {
		Default     string         `json:"default_logger_name"`
		Names       map[string]any `json:"logger_names"`
		Credentials bool           `json:"should_log_credentials"`
	} `json:"logs"`
}

type wrapper struct {
	Name string `json:"wrapper"`
}

// Handlers of purser's in a configuration.
const (
	proxyHandler = "purser_proxy"
	apiHandler   = "purser_api"
)

// has reports whether a handler, or a transport, is somewhere in a server.
func (s *server) has(is func(name string) bool) (found bool) {
	walk([]any{s.Routes, s.NamedRoutes}, func(o object) {
		handler, _ := o["handler"].(string)
		transport, _ := o["protocol"].(string)
		found = found || is(handler) || is(transport)
	})
	return found
}

func (s *server) hasPurser() bool {
	return s.has(func(name string) bool { return name == "purser" || strings.HasPrefix(name, "purser_") })
}

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

func (c *configuration) hasPurser() bool {
	return c.Apps.Purser != nil || slices.ContainsFunc(slices.Collect(maps.Values(c.Apps.HTTP.Servers)), (*server).hasPurser)
}

// servers lists the servers with a handler, by name.
func (c *configuration) servers(has func(*server) bool) (list []*server) {
	for _, name := range slices.Sorted(maps.Keys(c.Apps.HTTP.Servers)) {
		if s := c.Apps.HTTP.Servers[name]; s != nil && has(s) {
			list = append(list, s)
		}
	}
	return list
}

var reference = regexp.MustCompile(`\{env\.([^{}]+)\}`)

// resolved replaces the variables in a value.
func (c *configuration) resolved(value string) string {
	return strings.TrimSpace(reference.ReplaceAllStringFunc(value, func(r string) string {
		return c.getenv(reference.FindStringSubmatch(r)[1])
	}))
}

// option returns the value of an option, else that of its variable.
func (c *configuration) option(given, variable string) string {
	return c.resolved(cmp.Or(given, "{env."+variable+"}"))
}

// AdminAdvice says how to write an admin endpoint that only the operator reaches.
const AdminAdvice = "write `admin unix//run/purser/admin.sock|0600` into the configuration (the shipped one has it, with PURSER_ADMIN), or `admin off`; " +
	"where no agent reaches that address, `admin_over_tcp on` or PURSER_ADMIN_OVER_TCP=on allows it"

// admin finds an endpoint that any program of this machine can ask. Over it, POST /load replaces the
// whole configuration, with the limits in it.
func (c *configuration) admin() []Finding {
	at := ""
	if c.Admin != nil {
		if c.Admin.Disabled {
			return nil
		}
		at = c.resolved(c.Admin.Listen)
	}
	at = cmp.Or(at, c.getenv("CADDY_ADMIN"), "localhost:2019")
	if network, _, named := strings.Cut(at, "/"); named && (strings.HasPrefix(network, "unix") || strings.HasPrefix(network, "fd")) {
		return nil
	}
	given := ""
	if c.Apps.Purser != nil {
		given = string(c.Apps.Purser.AdminOverTCP)
	}
	f := OpenAdmin(at)
	if c.option(given, "PURSER_ADMIN_OVER_TCP") == "on" {
		f.Fatal, f.Do = false, "keep agents away from it, because admin_over_tcp is on"
	}
	return []Finding{f}
}

// OpenAdmin returns the finding for an admin endpoint at a TCP address.
func OpenAdmin(at string) Finding {
	return Finding{
		Check: CheckAdmin, Fatal: true,
		Says: "Caddy's admin endpoint is at " + at + ", where each program that reaches it is the operator: it gets keys, and replaces the configuration with its limits",
		Do:   AdminAdvice,
	}
}

// connections finds sites with a door of purser's whose connections nothing bounds.
func (c *configuration) connections() (found []Finding) {
	for _, s := range c.servers((*server).hasPurser) {
		if !slices.ContainsFunc(s.Wrappers, func(w wrapper) bool { return w.Name == "purser" }) {
			found = append(found, Unbounded(s.Listen))
		}
	}
	return found
}

// Unbounded returns the finding for a site without the listener wrapper purser.
func Unbounded(listen []string) Finding {
	at, first := strings.Join(listen, " "), ""
	if len(listen) > 0 { // Caddy goes by one of the addresses
		first = listen[0]
	}
	return Finding{
		Check: CheckConnections,
		Says:  "the connections to " + at + " have no bound: one client can hold so many that purser, and Caddy's other sites, can accept none",
		Do:    "write `listener_wrappers { purser }` into the global option `servers " + first + "`",
	}
}

// NarrowProxy returns the finding for a proxy to which requests for other hosts do not come.
func NarrowProxy(listen []string) Finding {
	return Finding{
		Check: CheckHosts, Fatal: true,
		Says: fmt.Sprintf("the purser_proxy at %s is in a site for some hosts or paths only, and Caddy answers a CONNECT or a request for any other host with an empty 200", strings.Join(listen, " ")),
		Do:   "write the site's address without a host name and a path, such as http://:8402, and the address to listen on with `bind`",
	}
}

// hosts finds proxies to which requests for other hosts do not come.
func (c *configuration) hosts() (found []Finding) {
	for _, s := range c.servers(func(s *server) bool { return s.has(func(name string) bool { return name == proxyHandler }) }) {
		if there, open := proxyIn(s.Routes); there && !open {
			found = append(found, NarrowProxy(s.Listen))
		}
	}
	return found
}

// proxyIn reports whether a proxy is in routes, and whether requests for all hosts come to one.
func proxyIn(routes []any) (there, open bool) {
	for _, one := range routes {
		route, _ := one.(object)
		sets, _ := route["match"].([]any)
		through := len(sets) == 0 || slices.ContainsFunc(sets, matchesAllHosts)
		handlers, _ := route["handle"].([]any)
		for _, h := range handlers {
			handler, _ := h.(object)
			in := handler["handler"] == proxyHandler
			inOpen := in
			if inner, _ := handler["routes"].([]any); inner != nil && !in {
				in, inOpen = proxyIn(inner)
			}
			there, open = there || in, open || inOpen && through
		}
	}
	return there, open
}

func matchesAllHosts(set any) bool {
	matchers, _ := set.(object)
	paths, some := matchers["path"].([]any)
	return matchers["host"] == nil && matchers["path_regexp"] == nil && (!some || slices.Contains(paths, any("*")))
}

// OpenProxy returns the finding for an open registration at some addresses beside a proxy at others; nil unless
// programs of other machines may reach both.
func OpenProxy(registers, proxies []string) *Finding {
	registers, proxies = Beyond(registers), Beyond(proxies)
	if len(registers) == 0 || len(proxies) == 0 {
		return nil
	}
	return &Finding{
		Check: CheckRegistration, Fatal: true,
		Says: fmt.Sprintf("POST /api-keys at %s makes keys for everybody who reaches it, beside a proxy at %s", strings.Join(registers, " "), strings.Join(proxies, " ")),
		Do: "set PURSER_REGISTRATION=off, so that only the operator and callers with PURSER_INTERNAL_SECRET make keys, " +
			"or bind the proxy's site to loopback (PURSER_BIND=127.0.0.1)",
	}
}

func (c *configuration) registration() []Finding {
	given := ""
	if c.Apps.Purser != nil {
		given = string(c.Apps.Purser.Registration)
	}
	if c.option(given, "PURSER_REGISTRATION") == "off" {
		return nil
	}
	at := func(handler string) (listen []string) {
		for _, s := range c.servers(func(s *server) bool { return s.has(func(name string) bool { return name == handler }) }) {
			for _, l := range s.Listen {
				if l = c.resolved(l); !strings.Contains(l, "{") { // purser says it when it starts and knows the address
					listen = append(listen, l)
				}
			}
		}
		return listen
	}
	if f := OpenProxy(at(apiHandler), at(proxyHandler)); f != nil {
		return []Finding{*f}
	}
	return nil
}

// accessLog begins the names of loggers of requests.
const accessLog = "http.log.access"

// logs finds logs of requests without the filter of the shipped Caddyfile. Keys and payments are in none of
// them, but the queries of URLs are.
func (c *configuration) logs() (found []Finding) {
	names := map[string]bool{}
	for _, s := range c.servers((*server).hasPurser) {
		if s.Logs == nil {
			continue
		}
		if s.Logs.Credentials {
			found = append(found, Finding{
				Check: CheckLogs, Says: "the server at " + strings.Join(s.Listen, " ") + " logs cookies and Authorization headers", Do: "take log_credentials away",
			})
		}
		names[s.Logs.Default] = true
		for _, of := range s.Logs.Names {
			list, some := of.([]any)
			if !some {
				list = []any{of}
			}
			for _, name := range list {
				text, _ := name.(string)
				names[text] = true
			}
		}
	}
	logs := slices.Sorted(maps.Keys(c.Logging.Logs))
	if !slices.Contains(logs, "default") {
		logs = append(logs, "default") // there is one in any case
	}
	for _, log := range logs {
		l := c.Logging.Logs[log]
		if l.Writer.Output == "discard" || l.Encoder.Format == "filter" && l.Encoder.Fields["request>uri"] != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			logger := strings.TrimSuffix(accessLog+"."+name, ".")
			if len(l.Include) > 0 && !slices.ContainsFunc(l.Include, func(of string) bool { return within(logger, of) }) ||
				slices.ContainsFunc(l.Exclude, func(of string) bool { return within(logger, of) }) {
				continue
			}
			found = append(found, Finding{
				Check: CheckLogs, Says: "the log " + log + " has the URLs of requests with their queries, where clients may send keys of other services",
				Do: "write `import redacted` into it, with the snippet of the shipped Caddyfile",
			})
			break
		}
	}
	return found
}

// within reports whether a logger has a name, or one below it.
func within(logger, of string) bool { return logger == of || strings.HasPrefix(logger, of+".") }
