package agentenv

import (
	"errors"
	"net/url"
	"runtime"
	"slices"
	"strings"
)

// Options say what a program is to use.
type Options struct {
	// Proxy is purser's address, such as http://127.0.0.1:8402, without credentials.
	Proxy *url.URL
	// Key is the API key that pays, Task the label of what it pays for. Both must be set:
	// Python's libraries send no credentials that lack a password.
	Key, Task string
	// Root is the interception root, in PEM. Without one no variable about certificates is
	// set, because nothing is intercepted.
	Root []byte
	// Environ is the environment to start from, as os.Environ returns it.
	Environ []string
	// Dir is where files with certificates go. Default: purser's folder among the user's
	// caches, else one of the user's own among the temporary files.
	Dir string
	// SystemRoots are the places where the system's roots may be; the first file there
	// counts. Default: the usual ones.
	SystemRoots []string
}

// Variable is one variable and its value.
type Variable struct{ Name, Value string }

// Environment is what to set, and what the user should know about it.
type Environment struct {
	Variables []Variable
	Warnings  []string
}

var proxyNames = []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"}

// Names are all variables that an Environment may set.
func Names() []string {
	names := slices.Concat(proxyNames, []string{"NO_PROXY", "no_proxy", "NODE_USE_ENV_PROXY"})
	for _, b := range bundles {
		names = append(names, b.name)
	}
	return append(names, javaOptions)
}

// New makes an environment, and the files that it names.
func New(o Options) (Environment, error) {
	if o.Proxy == nil || o.Proxy.Host == "" || o.Key == "" || o.Task == "" {
		return Environment{}, errors.New("an environment needs a proxy, a key and a task label")
	}
	old := parse(o.Environ)
	var e Environment
	proxy := "http://" + escape(o.Key) + ":" + escape(o.Task) + "@" + o.Proxy.Host
	for _, name := range proxyNames {
		e.set(name, proxy)
	}
	direct := notProxied(old["NO_PROXY"], old["no_proxy"], o.Proxy.Host)
	if slices.Contains(direct, "*") {
		e.warn("NO_PROXY has a *: no request will go through purser")
	}
	e.set("NO_PROXY", strings.Join(direct, ","))
	e.set("no_proxy", strings.Join(direct, ","))
	e.set("NODE_USE_ENV_PROXY", "1")
	trust, err := e.setRoots(o, old)
	if err != nil {
		return Environment{}, err
	}
	e.setJava(o.Proxy, direct, trust, old[javaOptions])
	return e, nil
}

func (e *Environment) set(name, value string) {
	e.Variables = append(e.Variables, Variable{Name: name, Value: value})
}

func (e *Environment) warn(text string) {
	if !slices.Contains(e.Warnings, text) {
		e.Warnings = append(e.Warnings, text)
	}
}

// Apply is an environment with the variables set, replacing those of the same name.
func (e Environment) Apply(environ []string) []string {
	out := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(e.Variables, func(v Variable) bool { return sameName(v.Name, name) })
	})
	for _, v := range e.Variables {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// sameName compares names of variables as the system does.
func sameName(a, b string) bool {
	if runtime.GOOS == "windows" {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// parse is an environment as a map. Of several entries for one name the first counts.
func parse(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if _, known := m[name]; !known {
			m[name] = value
		}
	}
	return m
}

// escape makes a part of a URL's user information. Every reserved character is escaped,
// also those that RFC 3986 allows there: Ruby takes a plus for a space.
func escape(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// notProxied are the entries of both spellings of NO_PROXY, because programs differ in
// which one wins, and purser's own address with its port: what else listens on that host
// stays behind the proxy.
func notProxied(upper, lower, own string) []string {
	var all []string
	for _, list := range []string{upper, lower, own} {
		for _, entry := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
			if !slices.Contains(all, entry) {
				all = append(all, entry)
			}
		}
	}
	return all
}
