// Command manager runs a controller-runtime manager against the server that
// $KUBECONFIG names. It defines a Widget resource, reconciles each Widget to a
// ConfigMap of the same name and checks that the two converge. Built-in
// resources are sent as protobuf, Widgets as JSON. It needs no
// controllers on the server: only the API.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"setpoint.test/clients/kit"
)

const (
	finalizer = "example.com/cleanup"
	patience  = 20 * time.Second
)

var c kit.Checks

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	ctrl.SetLogger(logr.Discard())

	cfg, err := kit.Config()
	c.Must("read the kubeconfig", err)
	var traffic kit.Traffic
	cfg = traffic.Wrap(cfg)
	cs := kubernetes.NewForConfigOrDie(cfg)
	crds := apiextensions.NewForConfigOrDie(cfg).ApiextensionsV1().CustomResourceDefinitions()

	ns, cleanUp, err := kit.Namespace(ctx, cs, "go-manager-")
	c.Must("create a namespace", err)

	// The resource, and the wait until it is served.
	_, err = crds.Create(ctx, widgetCRD(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil // left by a run that was stopped
	}
	c.Must("create the CRD", err)
	established := c.Soon("the CRD is established", patience, func() error {
		crd, err := crds.Get(ctx, "widgets.example.com", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, cond := range crd.Status.Conditions {
			if cond.Type == apiextensionsv1.Established && cond.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions: %+v", crd.Status.Conditions)
	})

	if established {
		runManager(ctx, cfg, ns)
		traffic.CheckTypes(&c)
	}

	c.OK("delete the CRD", crds.Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}))
	c.Soon("the CRD is gone", patience, func() error {
		_, err := crds.Get(ctx, "widgets.example.com", metav1.GetOptions{})
		return wantNotFound(err)
	})
	cleanUp()
	c.Finish()
}

// runManager starts the manager, checks the reconciler and stops it again.
func runManager(ctx context.Context, cfg *rest.Config, ns string) {
	scheme := runtime.NewScheme()
	c.Must("scheme: built-in types", clientgoscheme.AddToScheme(scheme))
	c.Must("scheme: widgets", addWidgets(scheme))

	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // no listener
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}},
		LeaderElection:                true,
		LeaderElectionID:              "widget-manager",
		LeaderElectionNamespace:       ns,
		LeaderElectionReleaseOnCancel: true,
	})
	if !c.OK("new manager", err) {
		return
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&Widget{}).Owns(&corev1.ConfigMap{}).
		Complete(&reconciler{mgr.GetClient(), scheme})
	if !c.OK("new controller", err) {
		return
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()

	select {
	case <-mgr.Elected():
		c.True("the manager is elected", true)
		// A client without a cache, so that each check reads the server itself.
		direct, err := client.New(cfg, client.Options{Scheme: scheme})
		if c.OK("new client", err) {
			checkWidgets(ctx, direct, ns)
		}
	case err := <-done:
		c.True("the manager is elected", false, "it ended: ", err)
		return
	case <-time.After(patience):
		c.True("the manager is elected", false, "not in time")
	}

	stop()
	select {
	case err := <-done:
		c.OK("the manager stops", err)
	case <-time.After(patience):
		c.True("the manager stops", false, "not in time")
	}
}

// checkWidgets is the test proper: it changes Widgets and ConfigMaps and checks
// that the reconciler brings them together again.
func checkWidgets(ctx context.Context, cl client.Client, ns string) {
	names := []string{"one", "two", "three"}
	for _, name := range names {
		w := widget(ns, name, "hello "+name)
		w.Status.Ready = true // must not be taken from a create
		if c.OK("create widget "+name, cl.Create(ctx, w)) {
			c.True("size has its default, status is dropped", w.Spec.Size == 7 && !w.Status.Ready && w.Generation == 1, *w)
		}
	}
	bad := widget(ns, "bad", "x")
	bad.Spec.Size = -1
	err := cl.Create(ctx, bad)
	c.True("a widget below the minimum is Invalid", apierrors.IsInvalid(err), err)

	for _, name := range names {
		converges(ctx, cl, ns, name, "hello "+name)
	}

	// A new spec.
	var w Widget
	key := client.ObjectKey{Namespace: ns, Name: "one"}
	c.OK("get widget one", cl.Get(ctx, key, &w))
	before := w.DeepCopyObject().(*Widget)
	w.Spec.Message = "changed"
	c.OK("patch widget one", cl.Patch(ctx, &w, client.MergeFrom(before)))
	c.True("its generation went up", w.Generation == before.Generation+1, before.Generation, " to ", w.Generation)
	converges(ctx, cl, ns, "one", "changed")

	// Someone deletes or changes the ConfigMap.
	c.OK("delete configmap two", cl.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "two"}}))
	converges(ctx, cl, ns, "two", "hello two")
	c.OK("patch configmap three", cl.Patch(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "three"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"data":{"message":"wrong"}}`))))
	converges(ctx, cl, ns, "three", "hello three")

	// A delete passes through the finalizer, where the reconciler cleans up.
	for _, name := range names {
		c.OK("delete widget "+name, cl.Delete(ctx, widget(ns, name, "")))
		key := client.ObjectKey{Namespace: ns, Name: name}
		c.Soon("widget "+name+" is gone", patience, func() error { return wantNotFound(cl.Get(ctx, key, &Widget{})) })
		err := cl.Get(ctx, key, &corev1.ConfigMap{})
		c.OK("its configmap is gone", wantNotFound(err))
	}
}

// converges checks that a Widget gets ready and its ConfigMap has the message.
func converges(ctx context.Context, cl client.Client, ns, name, message string) {
	c.Soon("widget "+name+" converges to "+message, patience, func() error {
		var w Widget
		var cm corev1.ConfigMap
		key := client.ObjectKey{Namespace: ns, Name: name}
		if err := errors.Join(cl.Get(ctx, key, &w), cl.Get(ctx, key, &cm)); err != nil {
			return err
		}
		if !w.Status.Ready || w.Status.ObservedGeneration != w.Generation {
			return fmt.Errorf("generation %d, status %+v", w.Generation, w.Status)
		}
		if cm.Data["message"] != message || !metav1.IsControlledBy(&cm, &w) {
			return fmt.Errorf("data %v, owners %v", cm.Data, cm.OwnerReferences)
		}
		return nil
	})
}

// reconciler keeps one ConfigMap for each Widget.
type reconciler struct {
	client.Client
	scheme *runtime.Scheme
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var w Widget
	if err := r.Get(ctx, req.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}

	if !w.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(r.Delete(ctx, cm)); err != nil {
			return ctrl.Result{}, err
		}
		if controllerutil.RemoveFinalizer(&w, finalizer) {
			return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, &w))
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&w, finalizer) {
		return ctrl.Result{}, r.Update(ctx, &w) // its event brings us back
	}

	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, cm, func() error {
		cm.Data = map[string]string{"message": w.Spec.Message}
		return controllerutil.SetControllerReference(&w, cm, r.scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	status := WidgetStatus{Ready: true, ObservedGeneration: w.Generation}
	if w.Status == status {
		return ctrl.Result{}, nil
	}
	w.Status = status
	return ctrl.Result{}, r.Status().Update(ctx, &w)
}

func widget(ns, name, message string) *Widget {
	return &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: WidgetSpec{Message: message}}
}

// wantNotFound is nil when err says NotFound.
func wantNotFound(err error) error {
	switch {
	case err == nil:
		return errors.New("still there")
	case apierrors.IsNotFound(err):
		return nil
	default:
		return err
	}
}
