package installation

import (
	"fmt"
	"testing"
)

const oneSite = `{"apps":{"purser":{},"http":{"servers":{
 "a":{"listen":["127.0.0.1:8402","[::]:9402"],"routes":[{"handle":[{"handler":"subroute","routes":[{"handle":[
   {"handler":"purser_proxy"},{"handler":"purser_dashboard"},{"handler":"purser_api"}]}]}]}]},
 "b":{"listen":["tcp/localhost:{env.METRICS}"],"routes":[{"handle":[{"handler":"metrics"}]}]},
 "c":{"listen":["0.0.0.0:80"],"routes":[{"handle":[{"handler":"file_server"}]}]}}}}}`

func TestAddressesIn(t *testing.T) {
	t.Parallel()
	a, err := AddressesIn([]byte(oneSite), func(name string) string { return map[string]string{"METRICS": "8407"}[name] })
	if err != nil {
		t.Fatal(err)
	}
	want := `{[http://127.0.0.1:8402 http://[::1]:9402] [http://127.0.0.1:8402 http://[::1]:9402] [] ` +
		`[http://127.0.0.1:8402/dashboard http://[::1]:9402/dashboard] [http://localhost:8407/metrics] [[::]:9402]}`
	if got := fmt.Sprint(a); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if _, err := AddressesIn([]byte("x"), nil); err == nil {
		t.Error("no error")
	}
}
