package exposure_test

import (
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/exposure"
)

const (
	socket = `"admin":{"listen":"unix//run/purser/admin.sock|0600"},`
	proxy  = `{"handler":"purser_proxy"}`
	api    = `{"handler":"purser_api"}`
)

// served is a configuration with one server.
func served(parts, server string) string {
	return `{` + parts + `"apps":{"purser":{},"http":{"servers":{"srv0":{` + server + `}}}}}`
}

// options is served with options of the app.
func options(parts, app, server string) string {
	return strings.Replace(served(parts, server), `"purser":{}`, `"purser":{`+app+`}`, 1)
}

func TestFind(t *testing.T) {
	t.Parallel()
	const wrapped = `"listener_wrappers":[{"wrapper":"purser"}],`
	const here, everywhere = wrapped + `"listen":["127.0.0.1:8402"],`, wrapped + `"listen":[":8402"],`
	both := `"routes":[{"handle":[{"handler":"subroute","routes":[{"handle":[` + proxy + `,` + api + `]}]}]}]`
	filtered := `"logging":{"logs":{"default":{"encoder":{"format":"filter","fields":{"request>uri":{}}}}}},`
	for _, c := range []struct {
		what, config, env string
		want              string // check, with ! if it is fatal, and a part of its text
	}{
		{"nothing", served(socket, here+both), "", ""},
		{"another program's configuration", `{"apps":{"http":{}}}`, "", ""},

		{"no admin line", served("", here+both), "", "admin! localhost:2019"},
		{"no admin line, without options of purser's", `{"apps":{"http":{"servers":{"a":{"listen":["127.0.0.1:1"],` + wrapped + `"routes":[{"handle":[` + api + `]}]}}}}}`, "", "admin! localhost:2019"},
		{"Caddy's own variable", served("", here+both), "CADDY_ADMIN=unix//x", ""},
		{"admin without an address", served(`"admin":{"config":{"persist":false}},`, here+both), "", "admin! localhost:2019"},
		{"a port of its own", served(`"admin":{"listen":"127.0.0.1:3000"},`, here+both), "", "admin! 127.0.0.1:3000"},
		{"a port by a variable", served(`"admin":{"listen":"{env.WHERE}"},`, here+both), "WHERE=tcp/10.0.0.1:1", "admin! 10.0.0.1:1"},
		{"a socket by a variable", served(`"admin":{"listen":"{env.WHERE}"},`, here+both), "WHERE=unix//x", ""},
		{"admin off", served(`"admin":{"disabled":true},`, here+both), "", ""},
		{"allowed", served("", here+both), "PURSER_ADMIN_OVER_TCP=on", "admin each program|keep agents away"},
		{"not allowed", served("", here+both), "PURSER_ADMIN_OVER_TCP=off", "admin! admin_over_tcp on"},

		{"a host name", served(socket, here+`"routes":[{"match":[{"host":["example.com"]}],"handle":[`+proxy+`]}]`), "", "hosts! empty 200"},
		{"a host name of a site", served(socket, here+`"routes":[{"match":[{"host":["example.com"]}],"handle":[{"handler":"subroute","routes":[{"handle":[`+proxy+`]}]}]}]`), "", "hosts! bind"},
		{"a path", served(socket, here+`"routes":[{"match":[{"path":["/*"]}],"handle":[`+proxy+`]}]`), "", "hosts! empty 200"},
		{"every path", served(socket, here+`"routes":[{"match":[{"path":["*"]}],"handle":[`+proxy+`]}]`), "", ""},
		{"addresses of clients", served(socket, here+`"routes":[{"match":[{"remote_ip":{"ranges":["10.0.0.0/8"]}}],"handle":[`+proxy+`]}]`), "", ""},
		{"a host beside all hosts", served(socket, here+`"routes":[{"match":[{"host":["example.com"]}],"handle":[`+proxy+`]},{"handle":[`+proxy+`]}]`), "", ""},
		{"an API with a host name", served(socket, here+`"routes":[{"match":[{"host":["example.com"]}],"handle":[`+api+`]}]`), "", ""},

		{"open registration beside a proxy", served(socket, everywhere+both), "", "registration! PURSER_REGISTRATION=off"},
		{"by a variable", served(socket, wrapped+`"listen":["{env.HOST}:8402"],`+both), "HOST=0.0.0.0", "registration! loopback"},
		{"closed", served(socket, everywhere+both), "PURSER_REGISTRATION=off", ""},
		{"closed by false", options(socket, `"registration":false`, everywhere+both), "", ""},
		{"opened by true", options(socket, `"registration":true`, everywhere+both), "PURSER_REGISTRATION=off", "registration! loopback"},
		{"of another form", options(socket, `"registration":{"is":"off"}`, everywhere+both), "PURSER_REGISTRATION=off", "registration! loopback"},
		{"allowed by true", options("", `"admin_over_tcp":true`, here+both), "", "admin each program"},
		{"not allowed by false", options("", `"admin_over_tcp":false`, here+both), "PURSER_ADMIN_OVER_TCP=on", "admin! admin_over_tcp on"},
		{"not allowed by a number", options("", `"admin_over_tcp":1`, here+both), "PURSER_ADMIN_OVER_TCP=on", "admin! admin_over_tcp on"},
		{"other options that are no texts", options("", `"max_payment":0.5,"allow_hosts":["a.example"],"plans":false`, everywhere+both), "CADDY_ADMIN=unix//x", "registration! loopback"},
		{"a host name in front of a proxy with routes", served(socket, here+`"routes":[{"match":[{"host":["example.com"]}],"handle":[{"handler":"purser_proxy","routes":[{"handle":[`+api+`]}]}]}]`), "", "hosts! bind"},
		{"a form that purser does not know", strings.Replace(served("", here+both), `"apps"`, `"logging":{"logs":{"default":{"encoder":{"format":"x","fields":["a"]}}}},"apps"`, 1), "", "admin! localhost"},
		{"without a proxy", served(socket, everywhere+`"routes":[{"handle":[`+api+`]}]`), "", ""},
		{"without an API", served(socket, everywhere+`"routes":[{"handle":[`+proxy+`]}]`), "", ""},

		{"connections without a bound", served(socket, `"listen":["127.0.0.1:8402"],"listener_wrappers":[{"wrapper":"tls"}],`+both), "", "connections 127.0.0.1:8402|listener_wrappers { purser }|servers 127.0.0.1:8402"},
		{"connections of another site", served(socket, `"listen":["127.0.0.1:8402"],"routes":[{"handle":[{"handler":"file_server"}]}]`), "", ""},

		{"a log of requests", served(socket, here+both+`,"logs":{}`), "", "logs queries"},
		{"a log of requests with the filter", served(socket+filtered, here+both+`,"logs":{}`), "", ""},
		{"a log of its own", served(socket+`"logging":{"logs":{"default":{"exclude":["http.log.access.log0"]},"log0":{"include":["http.log.access.log0"]}}},`, here+both+`,"logs":{"default_logger_name":"log0"}`), "", "logs log0"},
		{"credentials", served(socket+filtered, here+both+`,"logs":{"should_log_credentials":true}`), "", "logs log_credentials"},
		{"a log of another site", served(socket, here+`"routes":[{"handle":[{"handler":"file_server"}]}],"logs":{}`), "", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			found := exposure.Find([]byte(c.config), func(name string) string {
				if n, v, _ := strings.Cut(c.env, "="); n == name {
					return v
				}
				return ""
			})
			check, parts, _ := strings.Cut(c.want, " ")
			if c.want == "" {
				if len(found) > 0 {
					t.Errorf("%+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Check != strings.TrimSuffix(check, "!") || found[0].Fatal != strings.HasSuffix(check, "!") {
				t.Fatalf("%+v", found)
			}
			for part := range strings.SplitSeq(parts, "|") {
				if !strings.Contains(found[0].Error(), part) {
					t.Errorf("%q lacks %q", found[0].Error(), part)
				}
			}
			if fatal := exposure.Errors(found) != nil; fatal != found[0].Fatal || (len(exposure.Warnings(found)) == 0) != fatal {
				t.Errorf("errors %v, warnings %v", exposure.Errors(found), exposure.Warnings(found))
			}
		})
	}
}
