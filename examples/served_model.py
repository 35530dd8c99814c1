"""A model behind an address: a small inference server on loopback, a token, and a journal that survives anything.

The server speaks the Open Inference Protocol v2, as MLServer, Triton and KServe do, and wants a token. The first
run is interrupted; the second goes on from the journal and pays for no answer twice.
"""

import json
import os
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.neural_network import MLPRegressor

import unweave

x, y = load_diabetes(return_X_y=True)
model = MLPRegressor(
    hidden_layer_sizes=(8,), activation="tanh", solver="lbfgs", max_iter=2000, random_state=2
)
model.fit(20 * x, (y - y.mean()) / y.std())
os.environ["MODEL_TOKEN"] = "a-secret-from-the-environment"


class Inference(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    num_answers = 0
    patience = 200  # the first client is cut off after so many answers

    def do_GET(self):
        tensor = {"name": "x", "datatype": "FP64", "shape": [-1, 10]}
        self.reply(200, {"name": "diabetes", "inputs": [tensor], "outputs": []})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {os.environ['MODEL_TOKEN']}":
            return self.reply(401, {"error": "who are you?"})
        tensor = request["inputs"][0]
        answers = model.predict(np.reshape(tensor["data"], tensor["shape"])).tolist()
        if Inference.num_answers + len(answers) > Inference.patience:
            return self.reply(400, {"error": "out of order for now"})
        Inference.num_answers += len(answers)
        output = {"name": "y", "datatype": "FP64", "shape": [len(answers)], "data": answers}
        self.reply(200, {"model_name": "diabetes", "outputs": [output]})

    def reply(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Inference)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v2/models/diabetes"
served = unweave.ServedModel(address, token_env="MODEL_TOKEN", batch_size=50)

with tempfile.TemporaryDirectory() as folder:
    journal = Path(folder) / "run.journal"
    try:
        unweave.identify(served, journal=journal)
    except unweave.UnweaveError as error:
        print(f"first run: {error}\n")
    Inference.patience = 10_000
    found = unweave.identify(served, journal=journal)
server.shutdown()
server.server_close()

print(found.verdict())
print(f"the server answered {Inference.num_answers} questions in all")
print(f"worst parameter error: {unweave.compare(model, found.network).max_relative_error:.1e}")
