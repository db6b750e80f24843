// Package kit is what the client programs share: counting checks, the
// kubeconfig, a record of the HTTP traffic, and a namespace of their own.
package kit

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Checks counts checks and prints one line for each.
type Checks struct {
	mu             sync.Mutex
	passed, failed int
}

// True records a check. detail is shown when ok is false.
func (c *Checks) True(name string, ok bool, detail ...any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok {
		c.passed++
		fmt.Println("ok    ", name)
	} else {
		c.failed++
		fmt.Println("FAILED", name+":", fmt.Sprint(detail...))
	}
	return ok
}

// OK records that err is nil.
func (c *Checks) OK(name string, err error) bool { return c.True(name, err == nil, err) }

// Must is OK for a step that the rest depends on: if it fails, the program ends.
func (c *Checks) Must(name string, err error) {
	if !c.OK(name, err) {
		c.Finish()
	}
}

// Soon records that f returns nil within the timeout, trying again until then.
func (c *Checks) Soon(name string, timeout time.Duration, f func() error) bool {
	end := time.Now().Add(timeout)
	for {
		err := f()
		if err == nil || time.Now().After(end) {
			return c.OK(name, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Finish prints the totals as the last line and ends the program.
func (c *Checks) Finish() {
	fmt.Printf("%d passed, %d failed\n", c.passed, c.failed)
	if c.failed > 0 || c.passed == 0 {
		os.Exit(1)
	}
	os.Exit(0)
}

// Config reads $KUBECONFIG (or the default kubeconfig) the way kubectl does.
func Config() (*rest.Config, error) {
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = 200, 400 // no client-side throttling in a short test
	cfg.UserAgent = "setpoint-go-tests"
	return cfg, nil
}

// Namespace creates a namespace with a generated name. The returned function
// deletes it, not waiting for it to be gone.
func Namespace(ctx context.Context, cs kubernetes.Interface, prefix string) (string, func(), error) {
	ns, err := cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", func() {}, err
	}
	return ns.Name, func() {
		_ = cs.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{})
	}, nil
}

// Exchange is one HTTP request and the head of its response.
type Exchange struct {
	Method, Path, Query  string
	Accept, ResponseType string
	Status               int
}

// Traffic records the exchanges of the clients made from a config that it wraps.
type Traffic struct {
	mu  sync.Mutex
	all []Exchange
}

// Wrap returns a copy of cfg whose clients are recorded.
func (t *Traffic) Wrap(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil {
				t.mu.Lock()
				t.all = append(t.all, Exchange{
					Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
					Accept: r.Header.Get("Accept"), ResponseType: resp.Header.Get("Content-Type"),
					Status: resp.StatusCode,
				})
				t.mu.Unlock()
			}
			return resp, err
		})
	})
	return cfg
}

// Where returns the recorded exchanges for which keep is true.
func (t *Traffic) Where(keep func(Exchange) bool) []Exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Exchange
	for _, e := range t.all {
		if keep(e) {
			out = append(out, e)
		}
	}
	return out
}

// CheckTypes checks that some requests for the built-in resources asked for
// protobuf, and that each of those that had an answer was answered in a form that
// the client can read: which of them is the server's choice.
func (t *Traffic) CheckTypes(c *Checks) {
	const protobuf, json = "application/vnd.kubernetes.protobuf", "application/json"
	asked := t.Where(func(e Exchange) bool { return strings.HasPrefix(e.Accept, protobuf) })
	c.True("built-in resources are asked for in protobuf", len(asked) > 0, "no such request")
	var other []Exchange
	for _, e := range asked {
		if !strings.HasPrefix(e.ResponseType, protobuf) && !strings.HasPrefix(e.ResponseType, json) {
			other = append(other, e)
		}
	}
	c.True("and answered in protobuf or JSON", len(other) == 0, fmt.Sprintf("%+v", other))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
